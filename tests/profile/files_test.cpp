// Profiles that are read again: what was written, what Go writes, what nobody would write; merged and
// compared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <protozero/pbf_writer.hpp>
#include <random>
#include <sstream>

#include "base/gzip.hpp"
#include "profile/compare.hpp"
#include "profile/decode.hpp"
#include "profile/encoded_file.hpp"
#include "profile/merge.hpp"
#include "profile/profiles.hpp"
#include "profile/select.hpp"
#include "support/child.hpp"

namespace vitrine::profile {
namespace {

using test::EncodedFile;
using test::large_profile;
using test::small_profile;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;

std::string encoded(const Profile& profile, Encoding encoding) {
  const auto bytes = encode(profile, encoding);
  EXPECT_TRUE(bytes) << bytes.error().message;
  return bytes.value_or("");
}

Profile decoded(const std::string& bytes) {
  const auto profile = decode(bytes);
  EXPECT_TRUE(profile) << profile.error().message;
  return profile.value_or(Profile());
}

std::string bytes_of(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

/// Every stack by labels, with its time: what two profiles that say the same have in common.
std::string folded(const Profile& profile, std::vector<std::string> keys = {"tenant", "route"}) {
  return encode(profile, Encoding::folded, {.group_by = std::move(keys)}).value_or("failed");
}

using Table = std::vector<std::tuple<std::string, std::uint64_t, std::uint64_t, std::uint64_t>>;

Table table(const Profile& profile, const std::string& key) {
  Table rows;
  for (const TopRow& row : top(profile, {key}))
    rows.emplace_back(row.values[0], row.samples, row.on_cpu_ns, row.off_cpu_ns);
  return rows;
}

class Files : public testing::TestWithParam<Encoding> {};

TEST_P(Files, HoldWhatWasWritten) {
  for (const Profile& profile : {small_profile(), large_profile(5000, 400)}) {
    const Profile read = decoded(encoded(profile, GetParam()));
    EXPECT_EQ(folded(read), folded(profile));
    for (const char* key : {"tenant", "route", "tid", "trace_id", "span_id"})
      EXPECT_EQ(table(read, key), table(profile, key)) << key;
    // In OTLP a process has the pid that it says of itself.
    if (GetParam() == Encoding::pprof) {
      EXPECT_EQ(table(read, "pid"), table(profile, "pid"));
    }
    EXPECT_EQ(number_of_samples(read), number_of_samples(profile));
    EXPECT_EQ(read.frequency, profile.frequency);
    EXPECT_EQ(read.losses.events, profile.losses.events);
    EXPECT_EQ(read.losses.unread_labels, profile.losses.unread_labels);
  }
}

TEST_P(Files, HoldMappingsFunctionsAndLines) {
  const Profile read = decoded(encoded(small_profile(), GetParam()));
  const auto work = std::ranges::find(read.mappings, "/lib/libwork.so", &Mapping::file);
  ASSERT_NE(work, read.mappings.end());
  EXPECT_EQ(work->start, 0x7000U);
  EXPECT_EQ(work->limit, 0x9000U);
  EXPECT_EQ(work->file_offset, 0x1000U);
  EXPECT_EQ(work->build_id, "aa55aa55");
  const auto spin = std::ranges::find(read.functions, "work::spin(int)", &Function::name);
  ASSERT_NE(spin, read.functions.end());
  EXPECT_EQ(spin->system_name, "_ZN4work4spinEi");
  EXPECT_EQ(spin->file, "/src/work.cpp");
  EXPECT_EQ(spin->start_line, 5U);
  const auto inlined = std::ranges::find_if(
      read.locations, [](const Location& location) { return location.lines.size() == 2; });
  ASSERT_NE(inlined, read.locations.end());
  EXPECT_EQ(inlined->address, 0x7100U);
  EXPECT_EQ(inlined->lines[0].line, 8U);
  EXPECT_EQ(read.functions[inlined->lines[1].function].name, "work::spin(int)");
  const auto kernel = std::ranges::find(read.locations, FrameKind::kernel, &Location::kind);
  ASSERT_NE(kernel, read.locations.end());
  EXPECT_EQ(kernel->address, 0xffff'ffff'8100'0000U);
  EXPECT_THAT(read.problems, IsSupersetOf({"/lib/libwork.so: its symbols could not be read"}));
}

TEST_P(Files, AddUp) {
  const Profile profile = large_profile(3000, 300);
  const Profile read = decoded(encoded(profile, GetParam()));
  Merge merge;
  ASSERT_TRUE(merge.add(read));
  ASSERT_TRUE(merge.add(read));
  const Profile twice = merge.take();
  EXPECT_EQ(twice.duration_ns, 2 * read.duration_ns);
  EXPECT_EQ(twice.start_ns, read.start_ns);
  EXPECT_EQ(twice.stacks.size(), read.stacks.size());
  Table expected = table(read, "tenant");
  for (auto& [value, samples, on_cpu, off_cpu] : expected) samples *= 2, on_cpu *= 2, off_cpu *= 2;
  EXPECT_EQ(table(twice, "tenant"), expected);
  // Of what is merged, a file can be made again.
  EXPECT_EQ(folded(decoded(encoded(twice, GetParam()))), folded(twice));
}

// One of those that --continuous writes, in which nothing ran.
TEST_P(Files, WithoutSamplesAddUpToo) {
  Profile quiet;
  quiet.frequency = 99;
  quiet.duration_ns = 1'000'000'000;
  const Profile read = decoded(encoded(quiet, GetParam()));
  EXPECT_TRUE(read.samples.empty());
  const Profile profile = decoded(encoded(small_profile(), GetParam()));
  Merge merge;
  ASSERT_TRUE(merge.add(read));
  ASSERT_TRUE(merge.add(profile));
  EXPECT_EQ(table(merge.take(), "tenant"), table(profile, "tenant"));
}

TEST_P(Files, ThatAreBrokenAreRefusedOrRead) {
  const std::string file = encoded(small_profile(), GetParam());
  const std::string whole = GetParam() == Encoding::pprof ? gunzip(file, 1U << 20).value() : file;
  std::mt19937_64 random(21);
  std::size_t refused = 0;
  constexpr std::size_t mutants = 4000;
  for (std::size_t i = 0; i < mutants; ++i) {
    std::string bytes = whole;
    for (std::size_t change = 1 + random() % 4; change > 0; --change) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
          break;
        case 2:
          bytes.erase(at, 1 + random() % 8);
          break;
        default:
          bytes.insert(at, 1 + random() % 8, static_cast<char>(random()));
      }
      if (bytes.empty()) bytes = "\n";
    }
    const auto profile = decode(bytes);
    refused += !profile;
    if (!profile) {
      EXPECT_THAT(profile.error().message, testing::Not(testing::IsEmpty()));
      continue;
    }
    // Whatever it says, it can be shown, merged and written.
    Merge merge;
    EXPECT_TRUE(merge.add(*profile));
    const Profile merged = merge.take();
    for (const auto& [name, encoding] : encoding_names) encoded(merged, encoding);
    compare_functions(*profile, merged, Measure::on_cpu, CompareBy::part);
  }
  EXPECT_GT(refused, mutants / 10);
  EXPECT_LT(refused, mutants);
}

TEST_P(Files, ThatEndEarlyAreRefused) {
  const std::string file = encoded(small_profile(), GetParam());
  const std::string whole = GetParam() == Encoding::pprof ? gunzip(file, 1U << 20).value() : file;
  for (std::size_t size = 0; size < whole.size(); size += 7) (void)decode(whole.substr(0, size));
  const auto cut = decode(whole.substr(0, whole.size() - 1));
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, ErrorCode::malformed);
  EXPECT_THAT(cut.error().message, testing::Not(HasSubstr("exception")));
  EXPECT_THAT(cut.error().remedy, HasSubstr("whole file"));
}

std::string encoding_name(const testing::TestParamInfo<Encoding>& of) {
  return std::string(name_of(of.param));
}

INSTANTIATE_TEST_SUITE_P(Of, Files, testing::Values(Encoding::pprof, Encoding::otlp),
                         encoding_name);

TEST(FilesOfOthers, AreRefusedByName) {
  EXPECT_THAT(decode("").error().message, HasSubstr("empty"));
  EXPECT_THAT(decode("\x1f\x8b nothing").error().message, HasSubstr("gzip"));
  EXPECT_EQ(decode("root:x:0:0:root:/root:/bin/bash\n").error().code, ErrorCode::malformed);
}

/// What a Go program's own profiler writes, and what `go tool pprof` makes of it.
class OfGo : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new std::string(testing::TempDir() + "vitrine-go-" + std::to_string(getpid()));
    std::filesystem::create_directory(*folder_);
    const auto done = test::run({"go", "run", PROFILE_TESTS "/profiled.go", *folder_},
                                {.env = {"HOME=/tmp", "GOFLAGS=-mod=mod", "GO111MODULE=off"},
                                 .capture_stderr = true,
                                 .uid = 0},
                                std::chrono::minutes(3));
    ASSERT_EQ(done.status, 0) << done.err;
  }
  static void TearDownTestSuite() {
    std::filesystem::remove_all(*folder_);
    delete folder_;
  }

  static std::string path(const std::string& name) { return *folder_ + '/' + name; }

  static std::string pprof(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"go", "tool", "pprof", "-symbolize=none"});
    const auto done =
        test::run(std::move(arguments), {.env = {"HOME=/tmp"}, .capture_stderr = true, .uid = 0});
    EXPECT_EQ(done.status, 0) << done.err;
    return done.out;
  }

  static std::string* folder_;
};
std::string* OfGo::folder_ = nullptr;

TEST_F(OfGo, TimesByLabelAreThoseThatPprofPrints) {
  const Profile read = decoded(bytes_of(path("cpu-1.pprof")));
  const std::string raw = pprof({"-raw", path("cpu-1.pprof")});
  // Lines such as "  3   30000000: 1 2 3" after "Samples:", with the labels on the next.
  std::uint64_t samples = 0, time = 0;
  std::istringstream lines(
      raw.substr(raw.find("Samples:"), raw.find("Locations") - raw.find("Samples:")));
  for (std::string line; std::getline(lines, line);) {
    std::uint64_t count = 0, ns = 0;
    char colon = 0;
    if (std::istringstream(line) >> count >> ns >> colon && colon == ':')
      samples += count, time += ns;
  }
  ASSERT_GT(samples, 20U) << raw;
  EXPECT_EQ(number_of_samples(read), samples);
  std::uint64_t on_cpu = 0;
  for (const TopRow& row : top(read, {"tenant"})) on_cpu += row.on_cpu_ns;
  EXPECT_EQ(on_cpu, time);
  EXPECT_EQ(read.frequency, 100U);
  const Table tenants = table(read, "tenant");
  std::vector<std::string> values;
  for (const auto& row : tenants) values.push_back(std::get<0>(row));
  EXPECT_THAT(values, IsSupersetOf({"acme", "globex"}));
  EXPECT_THAT(folded(read), HasSubstr("main.work"));
}

TEST_F(OfGo, MergingIsWhatPprofMakesOfIt) {
  const EncodedFile theirs(
      pprof({"-proto", "-output=/dev/stdout", path("cpu-1.pprof"), path("cpu-2.pprof")}));
  Merge merge;
  for (const char* name : {"cpu-1.pprof", "cpu-2.pprof"})
    ASSERT_TRUE(merge.add(decoded(bytes_of(path(name)))));
  const Profile merged = merge.take();
  const Profile read = decoded(bytes_of(theirs.path()));
  EXPECT_EQ(folded(merged), folded(read));
  EXPECT_EQ(merged.duration_ns, read.duration_ns);
  // And back: pprof reads what is made of it.
  const EncodedFile ours(merged, Encoding::pprof);
  EXPECT_EQ(pprof({"-tags", ours.path()}).find("acme") == std::string::npos, false);
}

TEST_F(OfGo, WaitingIsTimeOffTheCpu) {
  const Profile read = decoded(bytes_of(path("block.pprof")));
  ASSERT_FALSE(read.samples.empty());
  EXPECT_EQ(read.samples[0].measure, Measure::off_cpu);
  EXPECT_EQ(read.frequency, 0U);
}

TEST_F(OfGo, BytesAreNoTime) {
  const auto heap = decode(bytes_of(path("heap.pprof")));
  ASSERT_FALSE(heap);
  EXPECT_EQ(heap.error().code, ErrorCode::unsupported);
  EXPECT_THAT(heap.error().message, HasSubstr("inuse_space/bytes"));
}

/// A pprof file of samples with a count and a time on the CPU each.
std::string pprof_of(const std::vector<std::array<std::int64_t, 2>>& samples) {
  std::string file;
  protozero::pbf_writer profile(file);
  for (const std::int64_t type : {1, 3}) {
    protozero::pbf_writer value_type(profile, 1);
    value_type.add_int64(1, type);
    value_type.add_int64(2, type + 1);
  }
  for (const auto& values : samples)
    protozero::pbf_writer(profile, 2).add_packed_int64(2, values.begin(), values.end());
  for (const char* text : {"", "samples", "count", "cpu", "nanoseconds"})
    profile.add_string(6, text);
  return file;
}

TEST(FilesOfOthers, RemarksCountSamples) {
  const Profile negative = decoded(pprof_of({{5, 50}, {-2, -20}, {-1, 7}}));
  EXPECT_THAT(negative.problems,
              testing::ElementsAre(testing::StartsWith("2 samples have negative values")));
  const Profile timeless = decoded(pprof_of({{5, 0}, {0, 0}, {1, 9}, {3, 0}}));
  EXPECT_THAT(timeless.problems,
              testing::ElementsAre(testing::StartsWith("2 samples have a count and no time")));
  EXPECT_EQ(timeless.samples.size(), 1U);
}

// Merging.

TEST(Merging, AFileAtAnotherAddressIsTheSameFile) {
  Profile first = small_profile(), second = small_profile();
  for (Mapping& mapping : second.mappings)
    if (mapping.file == "/lib/libwork.so") mapping.start += 0x10000, mapping.limit += 0x10000;
  for (Location& location : second.locations)
    if (location.mapping == 0) location.address += 0x10000;
  Merge merge;
  ASSERT_TRUE(merge.add(first));
  ASSERT_TRUE(merge.add(second));
  const Profile merged = merge.take();
  EXPECT_EQ(merged.mappings.size(), first.mappings.size());
  EXPECT_EQ(merged.locations.size(), first.locations.size());
  EXPECT_EQ(merged.stacks.size(), first.stacks.size());
}

TEST(Merging, LossesAddUpAndProblemsAreToldOnce) {
  Merge merge;
  ASSERT_TRUE(merge.add(small_profile()));
  ASSERT_TRUE(merge.add(small_profile()));
  const Profile merged = merge.take();
  EXPECT_EQ(merged.losses.events, 6U);
  EXPECT_EQ(merged.losses.unread_labels, 8U);
  EXPECT_EQ(merged.problems.size(), small_profile().problems.size());
}

TEST_P(Files, OfSeveralFrequenciesHaveTheirTimes) {
  Profile fast = small_profile();
  fast.frequency = 500;
  for (Sample& sample : fast.samples)
    if (sample.measure == Measure::on_cpu) sample.value_ns = sample.count * 2'000'000;
  Merge merge;
  ASSERT_TRUE(merge.add(decoded(encoded(small_profile(), GetParam()))));
  ASSERT_TRUE(merge.add(decoded(encoded(fast, GetParam()))));
  const Profile both = merge.take();
  const auto times = [](const Profile& profile) {
    std::uint64_t sum = 0;
    for (const Sample& sample : profile.samples)
      if (sample.measure == Measure::on_cpu) sum += sample.value_ns;
    return sum;
  };
  EXPECT_EQ(times(both), times(small_profile()) + times(fast));
  EXPECT_EQ(times(decoded(encoded(both, GetParam()))), times(both));
}

// Comparing.

/// `samples` ticks, of which a part `hot` is in the function "hot".
Profile random_profile(std::mt19937_64& random, std::size_t samples, double hot) {
  Profile p;
  p.frequency = 100;
  p.duration_ns = samples * 10'000'000;
  p.processes = {{1, "p", "/p", {}}};
  p.functions = {{"hot", "", "", 0}, {"cold", "", "", 0}, {"main", "", "", 0}};
  p.locations = {{none, 1, FrameKind::native, {{0, 0}}, ""},
                 {none, 2, FrameKind::native, {{1, 0}}, ""},
                 {none, 3, FrameKind::native, {{2, 0}}, ""}};
  p.stacks = {{{0, 2}, StackEnd::outermost}, {{1, 2}, StackEnd::outermost}};
  p.label_sets = {{{"tenant", "acme"}}, {{"tenant", "globex"}}};
  std::bernoulli_distribution is_hot(hot);
  for (std::size_t i = 0; i < samples; ++i) {
    const Index place = is_hot(random) ? 0 : 1;
    Sample sample;
    sample.process = 0;
    sample.stack = sample.labels = place;
    sample.value_ns = 10'000'000;
    p.samples.push_back(sample);
  }
  return p;
}

const ComparedRow& row_of(const std::vector<ComparedRow>& rows, const std::string& name) {
  return *std::ranges::find(rows, name, &ComparedRow::name);
}

TEST(Comparing, NoiseIsWhatEqualProgramsDifferBy) {
  std::mt19937_64 random(4);
  std::size_t significant = 0;
  constexpr std::size_t pairs = 1000;
  for (std::size_t i = 0; i < pairs; ++i) {
    const Profile before = random_profile(random, 300, 0.3),
                  after = random_profile(random, 500, 0.3);
    const auto rows = compare_functions(before, after, Measure::on_cpu, CompareBy::part);
    significant += row_of(rows, "hot").own.is_significant();
  }
  EXPECT_GT(significant, pairs * 3 / 100);  // 5 of 100
  EXPECT_LT(significant, pairs * 7 / 100);
}

TEST(Comparing, ChangesAreSeen) {
  std::mt19937_64 random(5);
  const Profile before = random_profile(random, 10'000, 0.30);
  const Profile after = random_profile(random, 10'000, 0.35);
  const auto rows = compare_functions(before, after, Measure::on_cpu, CompareBy::part);
  const ComparedRow& hot = row_of(rows, "hot");
  EXPECT_TRUE(hot.own.is_significant());
  EXPECT_NEAR(hot.own.change(), 0.05, 0.02);
  EXPECT_NEAR(hot.own.noise(), 1.96 * std::sqrt(0.3 * 0.7 / 1e4 + 0.35 * 0.65 / 1e4), 1e-3);
  const ComparedRow& main = row_of(rows, "main");
  EXPECT_EQ(main.total.before.value, 1);
  EXPECT_EQ(main.own.before.value, 0);
  EXPECT_FALSE(main.total.is_significant());
  const auto values = compare_values(before, after, Measure::on_cpu, "tenant", CompareBy::part);
  EXPECT_NEAR(row_of(values, "acme").total.change(), hot.own.change(), 1e-12);
  EXPECT_THAT(compare_functions(before, after, Measure::off_cpu, CompareBy::part), ElementsAre());
}

TEST(Comparing, RatesAreTimePerSecond) {
  std::mt19937_64 random(6);
  const Profile once = random_profile(random, 1000, 0.5);
  Profile twice = once;  // in the same time
  twice.samples.insert(twice.samples.end(), once.samples.begin(), once.samples.end());
  const auto parts = compare_functions(once, twice, Measure::on_cpu, CompareBy::part);
  EXPECT_NEAR(row_of(parts, "hot").own.change(), 0, 1e-12);
  const auto rates = compare_functions(once, twice, Measure::on_cpu, CompareBy::rate);
  EXPECT_NEAR(row_of(rates, "main").total.before.value, 1, 1e-12);
  EXPECT_NEAR(row_of(rates, "main").total.after.value, 2, 1e-12);
  EXPECT_TRUE(row_of(rates, "main").total.is_significant());
}

TEST(Comparing, ARowOfSeveralSamplesHasTheirNoise) {
  std::mt19937_64 random(7);
  const Profile single = random_profile(random, 2000, 0.4);
  const Profile summed = decoded(encoded(single, Encoding::pprof));
  ASSERT_LT(summed.samples.size(), 10U);
  const auto rows = compare_functions(single, summed, Measure::on_cpu, CompareBy::part);
  const Difference& hot = row_of(rows, "hot").own;
  EXPECT_NEAR(hot.before.deviation, hot.after.deviation, 1e-9);
  EXPECT_EQ(hot.change(), 0);
}

}  // namespace
}  // namespace vitrine::profile
