// The OpenTelemetry thread record that a scope puts in force together with its labels.
#include <customlabels.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vitrine/labels.hpp>

#include "publish/context/publisher.hpp"
#include "publish/own_slot.hpp"

namespace vitrine {
namespace {

using labels::Key;
using labels::Scope;
using labels::SpanId;
using labels::Trace;
using labels::TraceId;
using test::Labels;

const Key tenant{"tenant"}, route{"route"};

constexpr TraceId trace_id{{0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd, 0x84, 0x48, 0xeb, 0x21,
                            0x1c, 0x80, 0x31, 0x9c}};
constexpr SpanId span_id{{0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31}};

std::uint8_t index_of(std::string_view name) {
  return publish::otel_key_index(name).value();
}

TEST(Record, HasTheLabelsAsAttributes) {
  Scope outer{tenant, "acme"};
  Scope inner{route, "/cart"};
  const auto record = test::own_record();
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(test::attribute(*record, index_of("tenant")), "acme");
  EXPECT_EQ(test::attribute(*record, index_of("route")), "/cart");
  EXPECT_EQ(record->attributes.size(), 2U);
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(test::record_slot) % 2, 0U);
}

TEST(Record, ATraceShowsInBothFormats) {
  Scope scope{Trace{trace_id, span_id, 1}, {{tenant, "acme"}}};
  const auto record = test::own_record();
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->trace_id, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(record->span_id, "b7ad6b7169203331");
  EXPECT_EQ(record->flags, 1);
  EXPECT_EQ(record->attributes.size(), 1U) << "the ids are no attributes";
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"},
                                       {"trace_id", "0af7651916cd43dd8448eb211c80319c"},
                                       {"span_id", "b7ad6b7169203331"}}));
  const auto trace = labels::trace();
  ASSERT_TRUE(trace.has_value());
  EXPECT_EQ(trace->trace_id.bytes, trace_id.bytes);
  EXPECT_EQ(trace->span_id.bytes, span_id.bytes);
  EXPECT_EQ(trace->flags, 1);
}

TEST(Record, ATraceIsInheritedReplacedAndTakenOff) {
  Scope outer{Trace{trace_id, span_id, 1}};
  {
    Scope inner{tenant, "acme"};
    EXPECT_EQ(test::own_record()->trace_id, "0af7651916cd43dd8448eb211c80319c");
    EXPECT_EQ(test::own_record()->flags, 1);
    EXPECT_EQ(test::v1_labels().size(), 3U);
  }
  {
    Scope child{Trace{trace_id, SpanId{{1, 2, 3, 4, 5, 6, 7, 8}}, 0}};
    EXPECT_EQ(test::own_record()->span_id, "0102030405060708");
    EXPECT_EQ(test::own_record()->flags, 0);
    EXPECT_EQ(test::v1_labels().at("span_id"), "0102030405060708");
    EXPECT_EQ(test::v1_slot->count, 2U);
  }
  {
    Scope none{Trace{}, {{tenant, "acme"}}};
    EXPECT_EQ(test::own_record()->trace_id, std::string(32, '0'));
    EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}}));
    EXPECT_EQ(labels::trace(), std::nullopt);
  }
  EXPECT_EQ(test::own_record()->span_id, "b7ad6b7169203331");
}

TEST(Record, LongValuesAreCutBetweenCharacters) {
  std::string value(254, 'a');
  value += "\xc3\xa4 and more";  // a two-byte character across byte 255
  Scope scope{tenant, value};
  EXPECT_EQ(test::attribute(*test::own_record(), index_of("tenant")), std::string(254, 'a'));
  EXPECT_EQ(test::v1_labels().at("tenant"), value) << "only the record has the limit";
  Scope exact{tenant, std::string(255, 'b')};
  EXPECT_EQ(test::attribute(*test::own_record(), index_of("tenant")), std::string(255, 'b'));
}

TEST(Record, LeavesOutWhatIsNotUtf8) {
  const std::string bad[] = {
      "\xff", "\x80", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xe2\x82", "\xf5\x80\x80\x80"};
  for (const std::size_t size : {0U, 1U, 2U, 3U, 4U, 5U, 7U, 8U, 9U, 15U, 16U, 17U, 40U}) {
    for (std::size_t at = 0; at <= size; ++at) {
      for (const std::string& part : bad) {
        const std::string value = std::string(at, 'a') + part + std::string(size - at, 'z');
        Scope outer{route, "/cart"};
        Scope inner{tenant, value};
        const auto record = *test::own_record();
        EXPECT_EQ(record.attributes.size(), 1U) << "size " << size << ", at " << at;
        EXPECT_EQ(test::attribute(record, index_of("route")), "/cart");
        EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", value}, {"route", "/cart"}}));
        Scope innermost{route, "/"};  // inherits it
        EXPECT_EQ(test::own_record()->attributes.size(), 1U);
        EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", value}, {"route", "/"}}));
      }
    }
  }
  const std::string good = "zw\xc3\xb6lf \xe2\x82\xac \xf0\x9f\x96\xbc";
  for (std::size_t before = 0; before < 20; ++before) {
    const std::string value = std::string(before, 'a') + good;
    Scope scope{tenant, value};
    EXPECT_EQ(test::attribute(*test::own_record(), index_of("tenant")), value);
  }
}

TEST(Record, LeavesOutLongValuesThatAreNotUtf8) {
  for (const std::size_t at : {0U, 100U, 252U, 254U}) {
    std::string value(1000, 'a');
    value[at] = '\xff';
    Scope scope{{tenant, value}, {route, "/cart"}};
    const auto record = *test::own_record();
    EXPECT_EQ(record.attributes.size(), 1U) << at;
    EXPECT_EQ(test::attribute(record, index_of("route")), "/cart");
    EXPECT_EQ(test::v1_labels().at("tenant"), value);
    EXPECT_EQ(labels::capture().get(tenant), value);
  }
}

TEST(Record, LeavesOutKeysThatAreNotUtf8) {
  const Key key{"k\xff"};
  ASSERT_TRUE(key.ok());
  Scope scope{{key, "value"}, {tenant, "acme"}};
  EXPECT_EQ(test::own_record()->attributes.size(), 1U);
  EXPECT_EQ(test::v1_labels(), (Labels{{"k\xff", "value"}, {"tenant", "acme"}}));
  EXPECT_EQ(publish::otel_key_index("k\xff"), std::nullopt);
}

TEST(Record, StaysWithinTheRecommendedSize) {
  const std::string long_value(200, 'v');
  const Key a{"a"}, b{"b"}, c{"c"}, d{"d"}, e{"e"};
  Scope scope{{a, long_value}, {b, long_value}, {c, long_value}, {d, long_value}, {e, "fits"}};
  EXPECT_LE(sizeof(abi::thread_context::Record) + test::record_slot->attrs_size,
            abi::thread_context::recommended_record_max);
  const auto record = *test::own_record();
  EXPECT_EQ(test::attribute(record, index_of("c")), long_value);
  EXPECT_EQ(test::attribute(record, index_of("d")), std::nullopt);
  EXPECT_EQ(test::attribute(record, index_of("e")), "fits");
  EXPECT_EQ(test::v1_labels().size(), 5U);
}

TEST(Record, OfAHandleFollowsItWhenNoMoreAreMade) {
  const auto text = [](std::string_view from) {
    return custom_labels_string_t{from.size(), reinterpret_cast<const unsigned char*>(from.data())};
  };
  ASSERT_EQ(custom_labels_publish_thread_context(1), 0);
  auto* set = custom_labels_new(1);
  ASSERT_EQ(custom_labels_publish_thread_context(0), 0);
  custom_labels_replace(nullptr);
  // As often as it takes until values are replaced in the shortest way.
  for (int i = 0; i < 50; ++i)
    ASSERT_EQ(custom_labels_set(set, text("tenant"), text(std::to_string(i)), nullptr), 0);
  custom_labels_replace(set);
  { Scope scope{route, "/cart"}; }
  const auto record = test::own_record();
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(test::attribute(*record, index_of("tenant")), "49");
  custom_labels_replace(nullptr);
  custom_labels_free(set);
}

TEST(Record, ChangesTogetherWithTheLabels) {
  const auto* v1 = &test::v1_slot;
  const auto* record = &test::record_slot;
  EXPECT_EQ(labels::slot_address(), v1);
  EXPECT_EQ(labels::record_slot_address(), record);
  // The two slots are the halves of one aligned 16-byte word, which one instruction stores.
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(record) % 16, 0U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(v1), reinterpret_cast<std::uintptr_t>(record) + 8);
}

}  // namespace
}  // namespace vitrine
