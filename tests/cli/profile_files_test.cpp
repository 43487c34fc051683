// vitrine profile merge, diff and open: on files that vitrine profile wrote of a real process.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/profile_command.hpp"
#include "support/child.hpp"

namespace vitrine::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// Two profiles of one process: of two tenants, then of three.
class ProfileFilesCommand : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new Directory();
    take("before", {"burn acme", "burn globex"});
    take("after", {"burn acme", "burn globex", "burn initech"});
  }
  static void TearDownTestSuite() { delete folder_; }

  static void take(const std::string& name, std::vector<std::string> commands) {
    commands.insert(commands.begin(), PROFILE_SUBJECT);
    Child subject = Child::spawn(std::move(commands));
    ASSERT_EQ(subject.read_line(patience).value_or("nothing"), "ready");
    const Outcome outcome =
        vitrine({"profile", std::to_string(subject.pid()), "-F", "999", "-d", "1.5s", "-o",
                 path(name + ".pb.gz"), "-o", path(name + ".otlp")});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }

  static std::string path(const std::string& name) { return folder_->at(name); }

  /// Time on the CPU, and samples, by tenant.
  static std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> tenants(
      const std::vector<std::string>& files) {
    std::vector<std::string> words{"profile", "merge", "--format", "json"};
    words.insert(words.end(), files.begin(), files.end());
    const Outcome outcome = vitrine(words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> sums;
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) {
      const json sample = json::parse(line);
      if (sample.contains("summary")) continue;
      for (const json& pair : sample["labels"])
        if (pair["key"] == "tenant") {
          auto& [ns, count] = sums[pair["value"]];
          const json& value = sample["value_ns"];
          ns += value.is_string() ? std::stoull(value.get<std::string>())
                                  : value.get<std::uint64_t>();
          count += sample.value("count", std::uint64_t{1});
        }
    }
    return sums;
  }

  static Directory* folder_;
};
Directory* ProfileFilesCommand::folder_ = nullptr;

TEST_F(ProfileFilesCommand, BothFormatsSayTheSame) {
  const auto of_pprof = tenants({path("before.pb.gz")});
  EXPECT_EQ(of_pprof.size(), 2U);
  EXPECT_EQ(of_pprof, tenants({path("before.otlp")}));
}

TEST_F(ProfileFilesCommand, MergesIntoFilesAndSummaries) {
  const auto before = tenants({path("before.pb.gz")}), after = tenants({path("after.otlp")});
  const Outcome merged = vitrine({"profile", "merge", path("before.pb.gz"), path("after.otlp"),
                                  "-o", path("both.pb.gz"), "-o", path("both.otlp")});
  ASSERT_EQ(merged.status, 0) << merged.err;
  for (const char* name : {"both.pb.gz", "both.otlp"}) {
    auto sums = tenants({path(name)});
    for (const char* tenant : {"acme", "globex"}) {
      EXPECT_EQ(sums[tenant].first, before.at(tenant).first + after.at(tenant).first) << name;
      EXPECT_EQ(sums[tenant].second, before.at(tenant).second + after.at(tenant).second) << name;
    }
    EXPECT_EQ(sums["initech"], after.at("initech"));
  }
  const Outcome summary = vitrine({"profile", "merge", path("both.pb.gz")});
  EXPECT_THAT(summary.out,
              AllOf(HasSubstr("samples on CPU"), HasSubstr("initech"), HasSubstr("burn()")));
  const Outcome one = vitrine(
      {"profile", "merge", path("both.pb.gz"), "--filter", "tenant=initech", "--top", "tenant"});
  EXPECT_THAT(one.out, AllOf(HasSubstr("initech"), Not(HasSubstr("acme"))));
}

TEST_F(ProfileFilesCommand, ReadsPipesAndStandardInput) {
  const Outcome piped = run({"bash", "-c",
                             "'" VITRINE "' profile merge - <(cat '" + path("after.otlp") +
                                 "') --top tenant < '" + path("before.pb.gz") + "'"});
  EXPECT_EQ(piped.status, 0) << piped.err;
  EXPECT_THAT(piped.out, HasSubstr("initech"));
  const Outcome twice = vitrine({"profile", "merge", "-", "-"});
  EXPECT_EQ(twice.status, 2);
  EXPECT_THAT(twice.err, HasSubstr("standard input can be read once"));
}

TEST_F(ProfileFilesCommand, ShowsWhatChanged) {
  const Outcome diff =
      vitrine({"profile", "diff", path("before.pb.gz"), path("after.otlp"), "--by", "tenant"});
  ASSERT_EQ(diff.status, 0) << diff.err;
  EXPECT_THAT(diff.out, ContainsRegex("before .*before.pb.gz: [0-9]+ samples on CPU"));
  EXPECT_THAT(diff.out, ContainsRegex("\n +0.0% +[0-9.]+% +.[0-9.]+% .{1,2}[0-9.]+% +initech\n"));

  const Outcome rows = vitrine(
      {"profile", "diff", path("before.pb.gz"), path("after.otlp"), "--by", "tenant", "--json"});
  ASSERT_EQ(rows.status, 0) << rows.err;
  std::istringstream lines(rows.out);
  bool found = false;
  json last;
  for (std::string line; std::getline(lines, line);) {
    last = json::parse(line);
    if (last.value("type", "") != "label" || last["name"] != "initech") continue;
    found = true;
    EXPECT_EQ(last["key"], "tenant");
    EXPECT_EQ(last["total"]["before"], 0.0);
    EXPECT_GT(last["total"]["change"], last["total"]["noise"]);
    EXPECT_TRUE(last["total"]["significant"]);
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(last["summary"]["unit"], "part");
  EXPECT_GT(last["summary"]["after"]["samples"], 0);

  const Outcome same = vitrine({"profile", "diff", path("before.pb.gz"), path("before.otlp")});
  EXPECT_THAT(same.out, HasSubstr("none, or changed by less than the noise of sampling"));
}

TEST_F(ProfileFilesCommand, MakesAPage) {
  const std::string page = path("page.html");
  const Outcome opened = vitrine({"profile", "open", path("after.pb.gz"), "-o", page});
  ASSERT_EQ(opened.status, 0) << opened.err;
  EXPECT_THAT(opened.err, HasSubstr("page.html: open it in a browser"));
  std::ostringstream text;
  text << std::ifstream(page).rdbuf();
  EXPECT_THAT(text.str(),
              AllOf(HasSubstr("<html"), HasSubstr("initech"), HasSubstr("\"count\":[")));
  // Named after the file, in the working directory.
  const Outcome named =
      run({"sh", "-c",
           "cd '" + folder_->path().string() + "' && '" VITRINE "' profile open after.pb.gz"});
  EXPECT_EQ(named.status, 0) << named.err;
  EXPECT_TRUE(std::filesystem::exists(path("after.html")));
}

TEST_F(ProfileFilesCommand, ShowsBothOnOnePage) {
  const std::string page = path("diff.html");
  const Outcome outcome =
      vitrine({"profile", "diff", path("before.pb.gz"), path("after.otlp"), "-o", page});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  std::ostringstream text;
  text << std::ifstream(page).rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("\"compare\":[\"profile\",\"after.otlp\",\"before.pb.gz\"]"));
}

TEST_F(ProfileFilesCommand, NeedsNoRight) {
  ::chmod(folder_->path().c_str(), 0755);
  ::chmod(path("before.pb.gz").c_str(), 0644);
  const Outcome diff = run({VITRINE, "profile", "diff", path("before.pb.gz"), path("before.pb.gz")},
                           {.env = {}, .capture_stderr = true, .uid = 65534});
  EXPECT_EQ(diff.status, 0) << diff.err;
}

TEST_F(ProfileFilesCommand, NamesWhatItCannotRead) {
  struct Case {
    std::vector<std::string> words;
    int status;
    const char* message;
  };
  std::ofstream(path("text")) << "no profile\n";
  std::ofstream(path("cut.otlp")) << std::string("\x0a\x7f", 2);
  const Case cases[] = {
      {{"merge", path("missing.pb.gz")}, 4, "missing.pb.gz"},
      {{"merge", path("text")}, 1, "whole file of pprof"},
      {{"merge", path("cut.otlp")}, 1, "whole file of pprof"},
      {{"diff", path("before.pb.gz")}, 2, "AFTER is required"},
      {{"merge", path("before.pb.gz"), "-o", path("x.unknown")}, 2, "unknown format"},
      {{"open", path("before.pb.gz"), "-o", "/proc/x.html"}, 4, "/proc/x.html"},
      {{"merg", path("before.pb.gz")}, 2, "PID: expected a positive integer"},
  };
  for (const Case& one : cases) {
    std::vector<std::string> words{"profile"};
    words.insert(words.end(), one.words.begin(), one.words.end());
    const Outcome outcome = vitrine(words);
    EXPECT_EQ(outcome.status, one.status) << one.words[0] << ' ' << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(one.message));
    EXPECT_THAT(outcome.out, IsEmpty());
  }
}

}  // namespace
}  // namespace vitrine::test
