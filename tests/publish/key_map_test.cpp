// The key map of the thread records, as readers find it in the process context.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <set>
#include <thread>
#include <vitrine/context.hpp>

#include "publish/context/publisher.hpp"
#include "publish/context_peer.hpp"

namespace vitrine {
namespace {

using context::publish;
using context::Status;
using context::update;
using publish::declare_records;
using publish::otel_key_index;
using test::decode;
using test::read_context;
using test::value_of;
using testing::HasSubstr;

std::string shown() {
  const auto context = read_context(getpid());
  return context ? decode(context->payload) : std::string();
}

/// The map as text, in the order of the indices.
std::string key_map_of(const std::vector<std::string>& names) {
  std::string text = "array_value {";
  for (const auto& name : names) text += " values { string_value: \"" + name + "\" }";
  return text + " }";
}

// Each case runs in a process of its own: an index, once given, stays for the life of the process.

TEST(KeyMap, PublishesAContextWithTheFirstKey) {
  test::in_fork([] {
    ASSERT_TRUE(otel_key_index("tenant"));
    const std::string decoded = shown();
    EXPECT_EQ(value_of(decoded, "threadlocal.schema_version"), R"(string_value: "tlsdesc_v1_dev")");
    EXPECT_THAT(value_of(decoded, "threadlocal.attribute_key_map"),
                HasSubstr(R"(string_value: "tenant")"));
    EXPECT_EQ(value_of(decoded, "service.name"), R"(string_value: "unknown_service:key_map_test")");
    EXPECT_THAT(decoded, HasSubstr(R"(} } } attributes { key: "threadlocal.schema_version")"))
        << "in ProcessContext.attributes, not in the resource";
  });
}

TEST(KeyMap, NamesTheSchemaThatIsAskedFor) {
  const auto schema = [] { return value_of(shown(), "threadlocal.schema_version"); };
  test::in_fork([&] {
    ASSERT_TRUE(otel_key_index("tenant"));
    ASSERT_TRUE(publish({}, {.thread_schema = "tls_v1"}));
    EXPECT_EQ(schema(), R"(string_value: "tls_v1")");
    ASSERT_TRUE(update({{"service.name", "shop"}}));
    EXPECT_EQ(schema(), R"(string_value: "tls_v1")") << "as long as nobody publishes anew";
    setenv("VITRINE_THREAD_SCHEMA", " tls_v2 ", 1);
    ASSERT_TRUE(publish({}, {.thread_schema = "tls_v1"}));
    EXPECT_EQ(schema(), R"(string_value: "tls_v1")") << "the program's own choice is stronger";
    ASSERT_TRUE(publish());
    EXPECT_EQ(schema(), R"(string_value: "tls_v2")");
    ASSERT_TRUE(publish({}, {.environment = false}));
    EXPECT_EQ(schema(), R"(string_value: "tlsdesc_v1_dev")");
    setenv("VITRINE_THREAD_SCHEMA", "\xff", 1);
    const Status status = publish();
    ASSERT_TRUE(status);
    EXPECT_THAT(status.message(), HasSubstr("VITRINE_THREAD_SCHEMA is ignored"));
    EXPECT_EQ(schema(), R"(string_value: "tlsdesc_v1_dev")");
  });
}

TEST(KeyMap, IsDeclaredBeforeItHasAName) {
  test::in_fork([] {
    ASSERT_TRUE(publish());
    EXPECT_EQ(value_of(shown(), "threadlocal.schema_version"), "") << "this program has no slot";
    declare_records();
    ASSERT_TRUE(publish());
    EXPECT_EQ(value_of(shown(), "threadlocal.schema_version"), R"(string_value: "tlsdesc_v1_dev")");
    EXPECT_EQ(value_of(shown(), "threadlocal.attribute_key_map"), key_map_of({}));
    ASSERT_TRUE(publish({}, {.attributes = {{"threadlocal.schema_version", "other"}}}));
    EXPECT_EQ(value_of(shown(), "threadlocal.schema_version"), R"(string_value: "other")")
        << "the application describes its own records";
    ASSERT_TRUE(otel_key_index("tenant"));
    EXPECT_EQ(value_of(shown(), "threadlocal.schema_version"), R"(string_value: "tlsdesc_v1_dev")");
  });
}

TEST(KeyMap, GivesANameItsPlaceInTheMapForGood) {
  test::in_fork([] {
    const auto tenant = otel_key_index("tenant");
    const auto route = otel_key_index("route");
    ASSERT_TRUE(tenant && route);
    EXPECT_EQ(*route, *tenant + 1);
    EXPECT_EQ(otel_key_index("tenant"), tenant);
    const auto before = read_context(getpid());
    EXPECT_EQ(otel_key_index("route"), route);
    EXPECT_EQ(read_context(getpid())->stamp, before->stamp) << "a known name publishes nothing";
    ASSERT_TRUE(context::publish({{"service.name", "shop"}}));
    EXPECT_EQ(value_of(shown(), "threadlocal.attribute_key_map"), key_map_of({"tenant", "route"}))
        << "what the application publishes later leaves the map alone";
  });
}

TEST(KeyMap, StaysOffDisplayWithADroppedContext) {
  test::in_fork([] {
    ASSERT_TRUE(otel_key_index("tenant"));
    context::drop();
    const auto late = otel_key_index("late");
    ASSERT_TRUE(late);
    EXPECT_FALSE(read_context(getpid()));
    ASSERT_TRUE(context::publish());
    EXPECT_THAT(value_of(shown(), "threadlocal.attribute_key_map"), HasSubstr("\"late\""));
    EXPECT_EQ(otel_key_index("late"), late);
  });
}

TEST(KeyMap, RefusesWhatCannotBePublished) {
  test::in_fork([] {
    EXPECT_FALSE(otel_key_index(""));
    EXPECT_FALSE(otel_key_index("\xff"));
    EXPECT_FALSE(otel_key_index(std::string(4097, 'k')));
    EXPECT_TRUE(otel_key_index(std::string(4096, 'k')));
    const auto next = otel_key_index("next");
    ASSERT_TRUE(next);
    int long_names = 0;  // up to what a whole context may hold
    while (otel_key_index(std::to_string(long_names) + std::string(4000, 'k'))) ++long_names;
    EXPECT_EQ(long_names, 15);
    EXPECT_EQ(otel_key_index("short"), *next + long_names + 1) << "a refused name takes no place";
  });
}

TEST(KeyMap, HoldsAsManyNamesAsAByteCanIndex) {
  test::in_fork([] {
    std::array<std::set<int>, 4> given;
    std::vector<std::thread> threads;
    for (auto& mine : given)
      threads.emplace_back([&mine] {
        for (int i = 0; i < 300; ++i)
          if (const auto index = otel_key_index("key." + std::to_string(i))) mine.insert(*index);
      });
    for (auto& thread : threads) thread.join();
    const std::size_t size = given[0].size();
    EXPECT_EQ(size, 256U);
    for (const auto& mine : given) EXPECT_EQ(mine, given[0]) << "all threads see the same map";
    EXPECT_FALSE(otel_key_index("one too many"));
    EXPECT_EQ(otel_key_index("key.0"), otel_key_index("key.0"));
    const std::string map = value_of(shown(), "threadlocal.attribute_key_map");
    const std::string entry = "string_value: ";
    std::size_t entries = 0;
    for (auto at = map.find(entry); at != std::string::npos; at = map.find(entry, at + 1))
      ++entries;
    EXPECT_EQ(entries, 256U);
  });
}

}  // namespace
}  // namespace vitrine
