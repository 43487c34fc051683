// OTLP: decoded by protoc, checked by the rules of the format (check_otlp.py).
#include "profile/otlp.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <protozero/pbf_reader.hpp>
#include <set>

#include "profile/decode.hpp"
#include "profile/encoded_file.hpp"
#include "profile/profiles.hpp"
#include "profile/select.hpp"
#include "support/child.hpp"

namespace vitrine::profile {
namespace {

using test::EncodedFile;
using test::large_profile;
using test::small_profile;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

using Totals = std::map<std::string, std::array<std::uint64_t, 2>>;

/// Fails when a rule is broken. Time by tenant, on and off the CPU.
Totals checked(const std::vector<std::string>& files) {
  std::vector<std::string> argv{"python3", PROFILE_TESTS "/check_otlp.py", "--totals", "tenant"};
  argv.insert(argv.end(), files.begin(), files.end());
  const auto done = test::run(argv, {}, std::chrono::minutes(3));
  EXPECT_EQ(done.status, 0) << done.err;
  return done.out.empty() ? Totals{} : nlohmann::json::parse(done.out).get<Totals>();
}

Totals expected(const Profile& profile) {
  Totals totals;
  for (const TopRow& row : top(profile, {"tenant"}))
    totals[row.values[0]] = {row.on_cpu_ns, row.off_cpu_ns};
  return totals;
}

TEST(Otlp, EverySampleOfASumHasATimeIfItIsKnown) {
  Profile profile = small_profile();
  for (Sample& sample : profile.samples) sample.count = 3, sample.value_ns *= 3;
  profile.span_ns = 1000;
  const auto bytes = encode_otlp(profile, {});
  ASSERT_TRUE(bytes);
  const EncodedFile file(*bytes);
  EXPECT_EQ(checked({file.path()}), expected(profile));
  const auto back = decode_otlp(*bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(number_of_samples(*back), number_of_samples(profile));
}

std::string text_by_protoc(const std::string& file) {
  const auto done = test::run(
      {"sh", "-c", "protoc -I " PROFILE_TESTS " --decode=otlp.ProfilesData otlp.proto <" + file});
  EXPECT_EQ(done.status, 0) << done.err;
  return done.out;
}

/// Entries of a table on the wire.
std::size_t entries(std::string_view bytes, otlp::Field table) {
  protozero::pbf_reader data(bytes.data(), bytes.size());
  std::size_t count = 0;
  while (data.next(otlp::data::dictionary)) {
    protozero::pbf_reader dictionary = data.get_message();
    while (dictionary.next(table)) ++count, dictionary.skip();
  }
  return count;
}

// protozero's nested writers drop empty messages: then every index would be off by one.
TEST(Otlp, IndexZeroIsOnTheWireOfEveryTable) {
  const std::string nothing = *encode_otlp({}, {});
  const std::string something = *encode_otlp(small_profile(), {});
  for (otlp::Field table = 1; table <= 7; ++table) {
    EXPECT_EQ(entries(nothing, table), 1U) << table;
    EXPECT_GT(entries(something, table), 1U) << table;
  }
  EXPECT_EQ(entries(something, otlp::dictionary::stack_table), 1U + 5U);  // one is of no sample
  EXPECT_EQ(entries(something, otlp::dictionary::link_table), 1U + 1U);
}

TEST(Otlp, KeepsTheRules) {
  for (const bool compact : {false, true}) {
    const Profile profile = small_profile();
    const EncodedFile file(profile, Encoding::otlp, {.otlp_compact = compact});
    EXPECT_EQ(checked({file.path()}), expected(profile)) << compact;
  }
}

TEST(Otlp, TheCheckerSeesEveryBrokenRule) {
  const EncodedFile file(small_profile(), Encoding::otlp);
  const auto done = test::run({"python3", PROFILE_TESTS "/check_otlp_test.py", file.path()});
  EXPECT_EQ(done.status, 0) << done.out << done.err;
}

TEST(Otlp, FieldsAsProtocSeesThem) {
  const EncodedFile file(small_profile(), Encoding::otlp);
  const std::string text = text_by_protoc(file.path());
  // What a process says of itself comes first: in its namespace it is 7.
  EXPECT_THAT(text, ContainsRegex("key: \"process.pid\"\n +value [{]\n +int_value: 7\n"));
  EXPECT_THAT(text, ContainsRegex("key: \"process.pid\"\n +value [{]\n +int_value: 200\n"));
  EXPECT_THAT(text,
              ContainsRegex("key: \"service.name\"\n +value [{]\n +string_value: \"checkout\""));
  EXPECT_THAT(text, ContainsRegex(
                        "key: \"process.executable.name\"\n +value [{]\n +string_value: \"shop\""));
  EXPECT_THAT(text, HasSubstr("string_value: \"/srv/helper\""));
  EXPECT_THAT(text, HasSubstr("string_value: \"00112233445566778899aabbccddeeff\""));
  EXPECT_THAT(text, HasSubstr("string_table: \"process.executable.build_id.htlhash\""));
  EXPECT_THAT(text, HasSubstr("string_value: \"abort-marker\""));
  EXPECT_THAT(text, HasSubstr("string_value: \"kernel\""));
  EXPECT_THAT(text, HasSubstr("string_table: \"[truncated]\""));
  EXPECT_THAT(text, HasSubstr("string_table: \"label.thread.id\""));
  EXPECT_THAT(
      text, HasSubstr(R"(trace_id: "\001\002\003\004\005\006\007\010\t\n\013\014\r\016\017\020")"));
  EXPECT_THAT(text, HasSubstr("period: 10101010"));
  EXPECT_THAT(text, HasSubstr("string_value: \"3 samples were lost: the buffer was full\""));
  EXPECT_THAT(text, Not(HasSubstr("unused")));
}

TEST(Otlp, LabelPrefix) {
  const EncodedFile file(small_profile(), Encoding::otlp,
                         {.label_prefix = "process.context.label."});
  const std::string text = text_by_protoc(file.path());
  EXPECT_THAT(text, HasSubstr("string_table: \"process.context.label.tenant\""));
  EXPECT_THAT(text, Not(HasSubstr("string_table: \"tenant\"")));
}

TEST(Otlp, RequestsHaveEverySampleOnceAndNoneIsLarger) {
  const Profile profile = large_profile(1'000, 200);
  const std::size_t most = 60'000;
  const Requests requests = encode_otlp_requests(profile, {}, {.bytes = most});
  EXPECT_EQ(requests.too_large, 0U);
  EXPECT_GT(requests.bodies.size(), 2U);
  std::vector<std::unique_ptr<EncodedFile>> files;
  std::vector<std::string> paths;
  for (const std::string& body : requests.bodies) {
    EXPECT_LE(body.size(), most);
    files.push_back(std::make_unique<EncodedFile>(body));
    paths.push_back(files.back()->path());
  }
  EXPECT_EQ(checked(paths), expected(profile));
}

TEST(Otlp, ASampleLargerThanARequestIsCounted) {
  Profile profile = small_profile();
  profile.label_sets[1][0].value.assign(100'000, 'x');  // of three samples
  const Requests requests = encode_otlp_requests(profile, {}, {.bytes = 5'000});
  EXPECT_EQ(requests.too_large, 3U);
  std::vector<std::unique_ptr<EncodedFile>> files;
  std::vector<std::string> paths;
  for (const std::string& body : requests.bodies) {
    EXPECT_LE(body.size(), 5'000U);
    files.push_back(std::make_unique<EncodedFile>(body));
    paths.push_back(files.back()->path());
  }
  Totals others = expected(profile);
  others.erase(profile.label_sets[1][0].value);
  EXPECT_EQ(checked(paths), others);
  EXPECT_TRUE(encode_otlp_requests({}, {}, {}).bodies.empty());
}

/// Samples of OTLP in a request.
std::size_t rows(std::string_view bytes) {
  std::size_t count = 0;
  protozero::pbf_reader data(bytes.data(), bytes.size());
  while (data.next(otlp::data::resource_profiles)) {
    protozero::pbf_reader resource = data.get_message();
    while (resource.next(otlp::resource_profiles::scope_profiles)) {
      protozero::pbf_reader scope = resource.get_message();
      while (scope.next(otlp::scope_profiles::profiles)) {
        protozero::pbf_reader profile = scope.get_message();
        while (profile.next(otlp::profile::samples)) ++count, profile.skip();
      }
    }
  }
  return count;
}

/// Totals of all requests together.
Totals checked(const Requests& requests) {
  std::vector<std::unique_ptr<EncodedFile>> files;
  std::vector<std::string> paths;
  for (const std::string& body : requests.bodies) {
    files.push_back(std::make_unique<EncodedFile>(body));
    paths.push_back(files.back()->path());
  }
  return checked(paths);
}

TEST(Otlp, ARequestIsOfOneMeasure) {
  const Profile profile = small_profile();
  const Requests requests = encode_otlp_requests(profile, {}, {});
  ASSERT_EQ(requests.bodies.size(), 2U);
  for (const std::string& body : requests.bodies) {
    const Profile one = decode_otlp(body).value();
    EXPECT_EQ(one.processes.size(), 2U);
    for (const Sample& sample : one.samples) EXPECT_EQ(sample.measure, one.samples.front().measure);
  }
  EXPECT_EQ(checked(requests), expected(profile));
}

TEST(Otlp, ManySmallProcessesAreOneRequest) {
  Profile profile = large_profile(1'000, 20);
  profile.processes.clear();
  for (std::uint32_t pid = 1; pid <= 500; ++pid)
    profile.processes.push_back({pid, "churn", "/srv/churn", {}});
  for (std::size_t i = 0; i < profile.samples.size(); ++i)
    profile.samples[i].process = static_cast<Index>(i * 7 % 500);
  const RequestLimits plenty{.bytes = 1U << 30};
  EXPECT_EQ(encode_otlp_requests(profile, {}, plenty).bodies.size(), 2U);
  const RequestLimits small{.bytes = 100'000, .rows = 90};
  const Requests requests = encode_otlp_requests(profile, {}, small);
  EXPECT_EQ(requests.too_large, 0U);
  for (const std::string& body : requests.bodies) {
    EXPECT_LE(body.size(), small.bytes);
    EXPECT_LE(rows(body), small.rows);
  }
  EXPECT_LT(requests.bodies.size(), 60U);
  EXPECT_EQ(checked(requests), expected(profile));
}

TEST(Otlp, ARequestIsOfOneProcessWhereThatIsAsked) {
  const Profile profile = small_profile();
  const Requests requests = encode_otlp_requests(profile, {}, {.one_process = true});
  std::set<std::pair<std::uint32_t, bool>> parts;
  for (const Sample& sample : profile.samples)
    parts.emplace(sample.process, sample.measure == Measure::on_cpu);
  EXPECT_EQ(requests.bodies.size(), parts.size());
  for (const std::string& body : requests.bodies) {
    const Profile one = decode_otlp(body).value();
    EXPECT_EQ(one.processes.size(), 1U);
    for (const Sample& sample : one.samples) EXPECT_EQ(sample.measure, one.samples.front().measure);
  }
  EXPECT_EQ(checked(requests), expected(profile));
}

TEST(Otlp, ARequestHasNoMoreRowsThanAsked) {
  const Profile profile = large_profile(1'000, 200);
  const Requests requests = encode_otlp_requests(profile, {}, {.rows = 50});
  EXPECT_GT(requests.bodies.size(), 4U);
  for (const std::string& body : requests.bodies) EXPECT_LE(rows(body), 50U);
  EXPECT_EQ(checked(requests), expected(profile));
}

TEST(Otlp, ARequestIsSplitIntoSmallerOnesWithTheSameSamples) {
  const EncodeOptions all_options[] = {
      {},
      {.otlp_compact = true},
      {.attributes = AttributeChoice({"!thread.*", "!cpu.*", "!process.pid"})},
      {.attributes = AttributeChoice({"*", "trace_id", "span_id"})}};
  Profile profile = large_profile(1'000, 200);
  profile.links = {{.trace_id = {1, 2, 3}, .span_id = {4, 5, 6}}};
  for (Sample& sample : profile.samples) sample.link = 0;
  for (const EncodeOptions& options : all_options) {
    Requests parts;
    for (const std::string& request : encode_otlp_requests(profile, options, {}).bodies) {
      const auto split = split_otlp_request(request, options);
      ASSERT_TRUE(split) << split.error().message;
      EXPECT_EQ(split->too_large, 0U);
      EXPECT_GT(split->bodies.size(), 1U);
      for (const std::string& body : split->bodies) {
        EXPECT_LE(body.size(), request.size() / 2);
        parts.bodies.push_back(body);
      }
    }
    EXPECT_EQ(checked(parts), expected(profile));
  }
  EXPECT_FALSE(split_otlp_request("no request", {}));
}

TEST(Otlp, IdsOfWhichOneIsZerosAreNoLink) {
  Profile profile = small_profile();
  profile.links = {{.trace_id = {1, 2, 3}, .span_id = {}}, {.trace_id = {}, .span_id = {4, 5}}};
  for (Sample& sample : profile.samples) sample.link = sample.tid % 2;
  const Profile read = decode_otlp(encode_otlp(profile, {}).value()).value();
  EXPECT_TRUE(read.links.empty());
  for (const Sample& sample : read.samples) EXPECT_EQ(sample.link, none);
}

TEST(Otlp, AttributesAreChosen) {
  const auto text = [](std::vector<std::string> patterns) {
    const EncodedFile file(small_profile(), Encoding::otlp,
                           {.attributes = AttributeChoice(std::move(patterns))});
    EXPECT_EQ(checked({file.path()}).empty(), false);
    return text_by_protoc(file.path());
  };
  const std::string without = text({"!thread.*", "!cpu.*", "!process.pid"});
  for (const char* key : {"\"thread.id\"", "\"thread.name\"", "\"cpu.logical_number\"",
                          "\"process.pid\"", "\"trace_id\""})
    EXPECT_THAT(without, Not(HasSubstr(key)));
  for (const char* key : {"\"tenant\"", "\"service.name\"", "\"process.executable.name\""})
    EXPECT_THAT(without, HasSubstr(key));
  const std::string only = text({"tenant", "trace_id"});
  EXPECT_THAT(only, HasSubstr("string_table: \"tenant\""));
  EXPECT_THAT(only, HasSubstr("string_table: \"trace_id\""));
  EXPECT_THAT(only, HasSubstr("string_value: \"0102030405060708090a0b0c0d0e0f10\""));
  EXPECT_THAT(only, HasSubstr("\"service.name\""));  // what an engine knows a service by
  EXPECT_THAT(only, Not(HasSubstr("\"span_id\"")));
  EXPECT_THAT(only, Not(HasSubstr("\"thread.id\"")));
}

TEST(AttributeChoice, TheLastPatternThatMatchesDecides) {
  const auto has = [](std::vector<std::string> patterns, const char* key) {
    return AttributeChoice(std::move(patterns)).has(key);
  };
  EXPECT_TRUE(has({}, "a"));
  EXPECT_TRUE(has({"a*"}, "ab"));
  EXPECT_FALSE(has({"a*"}, "b"));
  EXPECT_TRUE(has({"!a*"}, "b"));
  EXPECT_FALSE(has({"!a*"}, "ab"));
  EXPECT_TRUE(has({"!a*", "ab"}, "ab"));
  EXPECT_FALSE(has({"a*", "!ab"}, "ab"));
  EXPECT_TRUE(AttributeChoice({"*", "trace_id"}).names("trace_id"));
  EXPECT_FALSE(AttributeChoice({"*"}).names("trace_id"));
  EXPECT_FALSE(AttributeChoice({"trace_id"}).without_requests().names("trace_id"));
}

}  // namespace
}  // namespace vitrine::profile
