// What a process context says about thread records: drafts B to D, the final form, other languages.
#include "format/thread_schema.hpp"

#include <gmock/gmock.h>

namespace vitrine::format {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;
using testing::SizeIs;

AnyValue text(std::string value) {
  return {std::move(value)};
}

AnyValue number(std::int64_t value) {
  return {value};
}

const AnyValue key_array{ValueArray{text("tenant"), number(4), text("route")}};

ProcessContext with_attributes(KeyValueList attributes) {
  ProcessContext context;
  context.attributes = std::move(attributes);
  return context;
}

TEST(ThreadSchema, SaysNothingWithoutItsKeys) {
  EXPECT_FALSE(schema_of(with_attributes({{"service.name", text("x")}})));
}

TEST(ThreadSchema, FinalForm) {
  auto schema = schema_of(with_attributes({{"threadlocal.schema_version", text("tls_v1")},
                                           {"threadlocal.attribute_key_map", key_array}}));
  ASSERT_TRUE(schema);
  EXPECT_EQ(schema->format, Format::otel_thread_ctx_v1);
  EXPECT_EQ(schema->version, "tls_v1");
  EXPECT_THAT(schema->keys.names, ElementsAre(Optional(std::string("tenant")), std::nullopt,
                                              Optional(std::string("route"))))
      << "an element that is no string keeps its place";
}

TEST(ThreadSchema, DraftsCAndDDifferByMaxRecordSize) {
  auto d = schema_of(with_attributes({{"threadlocal.schema_version", text("tlsdesc_v1_dev")},
                                      {"threadlocal.attribute_key_map", key_array}}));
  ASSERT_TRUE(d);
  EXPECT_EQ(d->format, Format::v2_draft_d);
  EXPECT_FALSE(d->max_record_size);

  // Draft C had them in the resource.
  ProcessContext context;
  context.resource = {{"threadlocal.schema_version", text("tlsdesc_v1_dev")},
                      {"threadlocal.max_record_size", number(512)},
                      {"threadlocal.attribute_key_map", key_array}};
  auto c = schema_of(context);
  ASSERT_TRUE(c);
  EXPECT_EQ(c->format, Format::v2_draft_c);
  EXPECT_EQ(c->max_record_size, 512u);
  EXPECT_THAT(c->keys.names, SizeIs(3));
}

TEST(ThreadSchema, DraftBHasATypeAnIntegerAndAKeyedMap) {
  ProcessContext context;
  context.resource = {{"threadlocal.schema_type", text("tlsdesc")},
                      {"threadlocal.schema_version", number(1)},
                      {"threadlocal.attribute_key_map",
                       {KeyValueList{{"2", text("user")},
                                     {"0", text("tenant")},
                                     {"x", text("no index")},
                                     {"256", text("too far")},
                                     {"1", number(3)}}}}};
  auto schema = schema_of(context);
  ASSERT_TRUE(schema);
  EXPECT_EQ(schema->format, Format::v2_draft_b);
  EXPECT_EQ(schema->version, "1");
  EXPECT_THAT(schema->keys.names, ElementsAre(Optional(std::string("tenant")), std::nullopt,
                                              Optional(std::string("user"))));
}

TEST(ThreadSchema, OtherLanguagesAreNamedAndNotRead) {
  auto go =
      schema_of(with_attributes({{"threadlocal.schema_version", text("go_pprof_labels_v1")}}));
  ASSERT_TRUE(go);
  EXPECT_FALSE(go->format);
  EXPECT_EQ(go->version, "go_pprof_labels_v1");
}

TEST(ThreadSchema, KeyMapHasAtMost256Entries) {
  ValueArray names(300, text("k"));
  auto schema = schema_of(with_attributes({{"threadlocal.schema_version", text("tls_v1")},
                                           {"threadlocal.attribute_key_map", {names}}}));
  EXPECT_THAT(schema->keys.names, SizeIs(256));
}

TEST(ThreadSchema, BrokenKeyMapIsAnEmptyOne) {
  auto schema = schema_of(with_attributes({{"threadlocal.schema_version", text("tls_v1")},
                                           {"threadlocal.attribute_key_map", text("tenant")}}));
  ASSERT_TRUE(schema);
  EXPECT_THAT(schema->keys.names, IsEmpty());
}

TEST(ThreadSchema, TellsTheDraftsBehindTheV2SymbolApart) {
  ThreadSchema b, c, final_form, go;
  b.format = Format::v2_draft_b;
  c.format = Format::v2_draft_c;
  final_form.format = Format::otel_thread_ctx_v1;
  EXPECT_EQ(draft_behind_v2_symbol({}, true), Format::v2_draft_a);
  EXPECT_EQ(draft_behind_v2_symbol(b, false), Format::v2_draft_b);
  EXPECT_EQ(draft_behind_v2_symbol(c, false), Format::v2_draft_c);
  EXPECT_EQ(draft_behind_v2_symbol(final_form, false), Format::v2_draft_d);
  EXPECT_EQ(draft_behind_v2_symbol(go, false), std::nullopt);
  EXPECT_EQ(draft_behind_v2_symbol({}, false), std::nullopt);
}

}  // namespace
}  // namespace vitrine::format
