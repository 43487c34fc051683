// What is on display: the header, the attributes, where they come from, and their limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vitrine/context.hpp>

#include "publish/context/publisher.hpp"
#include "publish/context_peer.hpp"
#include "support/child.hpp"

namespace vitrine {
namespace {

using context::Errc;
using context::Value;
using test::decode;
using test::PublishedContext;
using test::read_context;
using test::value_of;
using testing::HasSubstr;
using testing::Not;

static_assert(std::is_constructible_v<Value, int> && std::is_constructible_v<Value, std::uint32_t>);
static_assert(!std::is_constructible_v<Value, std::uint64_t>, "its upper half would be lost");
static_assert(!std::is_constructible_v<Value, std::nullptr_t>);
static_assert(!std::is_constructible_v<Value, char>, "a character is not a number");
static_assert(!std::is_constructible_v<Value, void*> && !std::is_constructible_v<Value, int*>,
              "a pointer is not a flag");

std::uint64_t boot_time() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

class ProcessContext : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("OTEL_RESOURCE_ATTRIBUTES");
    unsetenv("OTEL_SERVICE_NAME");
    context::drop();
    ASSERT_FALSE(read_context(getpid()));
  }

  /// The context on display in this process, which must be there.
  static PublishedContext shown() {
    auto context = read_context(getpid());
    EXPECT_TRUE(context);
    return context.value_or(PublishedContext{});
  }

  static std::string shown_value(const std::string& key) {
    return value_of(decode(shown().payload), key);
  }
};

TEST_F(ProcessContext, HasTheHeaderOfTheFormat) {
  const std::uint64_t before = boot_time();
  ASSERT_TRUE(context::publish());
  const PublishedContext context = shown();
  EXPECT_EQ(context.signature, "OTEL_CTX");
  EXPECT_EQ(context.version, 2U);
  EXPECT_GE(context.stamp, before);
  EXPECT_LE(context.stamp, boot_time());
  EXPECT_EQ(context.bytes, static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
  EXPECT_THAT(context.mapping, HasSubstr(" rw-p "));
}

TEST_F(ProcessContext, CarriesEveryTypeOfValue) {
  context::Options options;
  options.attributes = {{"build.id", "abc"}};
  ASSERT_TRUE(context::publish({{"text", "zwölf \"µ\""},
                                {"yes", true},
                                {"no", false},
                                {"answer", 42},
                                {"below", -1},
                                {"lowest", INT64_MIN},
                                {"half", 0.5},
                                {"empty", ""},
                                {"null", std::getenv("VITRINE_TEST_NO_SUCH_VARIABLE")},
                                {"texts", std::vector<std::string>{"a", ""}},
                                {"flags", std::vector<bool>{true, false}},
                                {"numbers", std::vector<std::int64_t>{1, -2}},
                                {"doubles", std::vector<double>{0.25, -4}},
                                {"nothing", std::vector<double>{}}},
                               options));
  const std::string decoded = decode(shown().payload);
  EXPECT_EQ(value_of(decoded, "text"), R"(string_value: "zw\303\266lf \"\302\265\"")");
  EXPECT_EQ(value_of(decoded, "yes"), "bool_value: true");
  EXPECT_EQ(value_of(decoded, "no"), "bool_value: false");
  EXPECT_EQ(value_of(decoded, "answer"), "int_value: 42");
  EXPECT_EQ(value_of(decoded, "below"), "int_value: -1");
  EXPECT_EQ(value_of(decoded, "lowest"), "int_value: -9223372036854775808");
  EXPECT_EQ(value_of(decoded, "half"), "double_value: 0.5");
  EXPECT_EQ(value_of(decoded, "empty"), R"(string_value: "")");
  EXPECT_EQ(value_of(decoded, "null"), R"(string_value: "")");
  EXPECT_EQ(value_of(decoded, "texts"),
            R"(array_value { values { string_value: "a" } values { string_value: "" } })");
  EXPECT_EQ(value_of(decoded, "flags"),
            "array_value { values { bool_value: true } values { bool_value: false } }");
  EXPECT_EQ(value_of(decoded, "numbers"),
            "array_value { values { int_value: 1 } values { int_value: -2 } }");
  EXPECT_EQ(value_of(decoded, "doubles"),
            "array_value { values { double_value: 0.25 } values { double_value: -4 } }");
  EXPECT_EQ(value_of(decoded, "nothing"), "array_value { }");
  EXPECT_THAT(decoded, HasSubstr(R"(} } attributes { key: "build.id" value { string_value: "abc")"))
      << "beside the resource, not in it";
}

TEST_F(ProcessContext, IsReadableWithoutAnySchema) {
  ASSERT_TRUE(context::publish({{"service.name", "shop"}, {"shard", 7}}));
  test::Child protoc = test::Child::spawn({"protoc", "--decode_raw"});
  protoc.write(shown().payload);
  protoc.close_stdin();
  const std::string text = protoc.rest_of_output();
  EXPECT_EQ(protoc.wait(), 0);
  EXPECT_THAT(text, HasSubstr("    1: \"service.name\"\n    2 {\n      1: \"shop\"\n"));
  EXPECT_THAT(text, HasSubstr("    1: \"shard\"\n    2 {\n      3: 7\n"));
}

TEST_F(ProcessContext, HasDefaults) {
  ASSERT_TRUE(context::publish());
  const std::string decoded = decode(shown().payload);
  EXPECT_EQ(value_of(decoded, "service.name"), R"(string_value: "unknown_service:context_test")");
  EXPECT_EQ(value_of(decoded, "process.pid"), "int_value: " + std::to_string(getpid()));
  EXPECT_EQ(value_of(decoded, "telemetry.sdk.name"), R"(string_value: "vitrine")");
  EXPECT_EQ(value_of(decoded, "telemetry.sdk.language"), R"(string_value: "cpp")");
  EXPECT_NE(value_of(decoded, "telemetry.sdk.version"), "");
  const std::string id = value_of(decoded, "service.instance.id");
  EXPECT_THAT(id, testing::MatchesRegex("string_value: \"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-"
                                        "[89ab][0-9a-f]{3}-[0-9a-f]{12}\""));
  ASSERT_TRUE(context::publish({{"service.name", "shop"}}));
  EXPECT_EQ(shown_value("service.instance.id"), id) << "the same for the life of the process";
}

TEST_F(ProcessContext, TakesTheEnvironmentBetweenDefaultsAndCode) {
  setenv("OTEL_RESOURCE_ATTRIBUTES",
         " service.name=from-list , host=a%2Cb%3dc,note=caf%C3%A9=x,code=env,twice=1,twice=2,", 1);
  const auto done = context::publish({{"code", "wins"}});
  ASSERT_TRUE(done);
  EXPECT_EQ(done.message(), "");
  std::string decoded = decode(shown().payload);
  EXPECT_EQ(value_of(decoded, "service.name"), R"(string_value: "from-list")");
  EXPECT_EQ(value_of(decoded, "host"), R"(string_value: "a,b=c")");
  EXPECT_EQ(value_of(decoded, "note"), R"(string_value: "caf\303\251=x")");
  EXPECT_EQ(value_of(decoded, "twice"), R"(string_value: "2")");
  EXPECT_EQ(value_of(decoded, "code"), R"(string_value: "wins")");

  setenv("OTEL_SERVICE_NAME", "from-name", 1);
  ASSERT_TRUE(context::publish());
  EXPECT_EQ(shown_value("service.name"), R"(string_value: "from-name")");
  setenv("OTEL_SERVICE_NAME", "", 1);
  ASSERT_TRUE(context::publish());
  EXPECT_EQ(shown_value("service.name"), R"(string_value: "from-list")") << "empty is not set";

  context::Options options;
  options.environment = false;
  ASSERT_TRUE(context::publish({}, options));
  decoded = decode(shown().payload);
  EXPECT_EQ(value_of(decoded, "service.name"), R"(string_value: "unknown_service:context_test")");
  EXPECT_EQ(value_of(decoded, "host"), "");
}

TEST_F(ProcessContext, DiscardsABrokenVariableAsAWholeAndSaysSo) {
  for (const char* broken :
       {"a=1,no-equals-sign", "a=1,b=%4", "a=1,b=%zz", "a=1,=x", "a=1,b=%ff"}) {
    setenv("OTEL_RESOURCE_ATTRIBUTES", broken, 1);
    const auto done = context::publish();
    ASSERT_TRUE(done) << broken;
    EXPECT_THAT(done.message(), HasSubstr("OTEL_RESOURCE_ATTRIBUTES is ignored")) << broken;
    EXPECT_EQ(shown_value("a"), "") << broken;
  }
  setenv("OTEL_RESOURCE_ATTRIBUTES", "a=1", 1);
  setenv("OTEL_SERVICE_NAME", "\xff", 1);
  const auto done = context::publish();
  ASSERT_TRUE(done);
  EXPECT_THAT(done.message(), HasSubstr("OTEL_SERVICE_NAME is ignored"));
  EXPECT_EQ(shown_value("a"), R"(string_value: "1")");
}

TEST_F(ProcessContext, RefusesWhatTheFormatCannotHoldAndLeavesTheDisplayAlone) {
  ASSERT_TRUE(context::publish({{"state", "good"}}));
  const PublishedContext good = shown();
  const std::string most(4096, 'x');
  const auto refuses = [&](const context::Status& status, Errc code, const char* why) {
    EXPECT_EQ(status.code(), code);
    EXPECT_THAT(status.message(), HasSubstr(why));
    EXPECT_EQ(shown().stamp, good.stamp) << why;
  };
  refuses(context::update({{"", 1}}), Errc::invalid_attribute, "empty key");
  refuses(context::update({{"\xc0\x80", 1}}), Errc::invalid_attribute, "not valid UTF-8");
  refuses(context::update({{"k", "\xed\xa0\x80"}}), Errc::invalid_attribute, "\"k\" is not valid");
  refuses(context::update({{"k", std::vector<std::string>{"\xff"}}}), Errc::invalid_attribute,
          "an element of the value of \"k\"");
  refuses(context::update({{most + "x", 1}}), Errc::too_large, "4097 bytes, the limit is 4096");
  refuses(context::update({{"k", most + "x"}}), Errc::too_large, "4097 bytes, the limit is 4096");
  refuses(context::update({{"a", most}, {"b", most}, {"c", most}, {"d", most}}), Errc::too_large,
          "the resource has");
  context::Options options;
  options.attributes.assign(1, {"k", std::vector<std::string>(16, most)});
  refuses(context::publish({}, options), Errc::too_large, "the process context has");

  EXPECT_TRUE(context::update({{most, most}})) << "both at the limit";
  EXPECT_TRUE(context::update({{"k", "\xf0\x9f\x96\xbc \xf4\x8f\xbf\xbf \xee\x80\x80"}}));
}

TEST_F(ProcessContext, TakesAResourceOfExactlyTheLimit) {
  const std::string most(4096, 'x');
  const auto publish_with = [&](std::size_t rest) {
    return context::publish({{"a", most}, {"b", most}, {"c", most}, {"d", std::string(rest, 'x')}});
  };
  ASSERT_TRUE(publish_with(3000));
  const std::size_t resource_bytes = shown().payload.size() - 3;  // its tag, and a 2-byte length
  const std::size_t left = 16'383 - resource_bytes;
  EXPECT_TRUE(publish_with(3000 + left));
  EXPECT_EQ(publish_with(3000 + left + 1).code(), Errc::too_large);
}

TEST_F(ProcessContext, UpdatesInPlace) {
  ASSERT_TRUE(context::update({{"first", 1}}));
  const PublishedContext before = shown();
  ASSERT_TRUE(context::update({{"second", 2}, {"first", 3}}));
  const PublishedContext after = shown();
  EXPECT_EQ(after.address, before.address);
  EXPECT_GT(after.stamp, before.stamp);
  const std::string decoded = decode(after.payload);
  EXPECT_EQ(value_of(decoded, "first"), "int_value: 3");
  EXPECT_EQ(value_of(decoded, "second"), "int_value: 2");
  EXPECT_EQ(test::read_bytes(getpid(), before.payload_address, before.payload.size()),
            before.payload)
      << "the old payload stays for one more update, for readers that are copying it";

  ASSERT_TRUE(context::publish());
  EXPECT_EQ(shown_value("first"), "") << "publish replaces everything";
  context::drop();
  EXPECT_FALSE(read_context(getpid()));
  EXPECT_EQ(test::context_signatures(getpid()).size(), 0U) << "unmapped, not renamed";
  ASSERT_TRUE(context::update({{"back", true}}));
  EXPECT_EQ(shown_value("back"), "bool_value: true");
}

TEST_F(ProcessContext, ShowsNoMixtureWhileThreadsPublish) {
  constexpr int rounds = 400;
  ASSERT_TRUE(context::update({{"left", "0"}, {"right", "0"}}));
  std::atomic<int> running{3};
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 2; ++writer)
    writers.emplace_back([&, writer] {
      for (int i = 0; i < rounds; ++i) {
        const std::string value(static_cast<std::size_t>(i % 50 + writer), 'v');
        EXPECT_TRUE(context::update({{"left", value}, {"right", value}}));
      }
      --running;
    });
  writers.emplace_back([&] {
    for (int i = 0; i < 100; ++i)
      EXPECT_TRUE(publish::otel_key_index("raced." + std::to_string(i)));
    --running;
  });

  // The attributes' encodings are equal but for the key, wherever they are.
  const auto value_bytes = [](const std::string& payload, const std::string& key) {
    const auto at = payload.find(key);
    EXPECT_NE(at, std::string::npos);
    const auto text_size = static_cast<std::size_t>(payload[at + key.size() + 3]);
    return payload.substr(at + key.size(), 4 + text_size);
  };
  int reads = 0;
  while (running > 0 || reads == 0) {
    const PublishedContext context = shown();
    EXPECT_EQ(value_bytes(context.payload, "left"), value_bytes(context.payload, "right"));
    ++reads;
  }
  for (auto& writer : writers) writer.join();
  const std::string decoded = decode(shown().payload);
  for (int i = 0; i < 100; ++i)
    EXPECT_THAT(decoded, HasSubstr("\"raced." + std::to_string(i) + '"'));
}

}  // namespace
}  // namespace vitrine
