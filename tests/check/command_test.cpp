// `vitrine check` as a user meets it.
#include "cli/command.hpp"

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "check/publishers.hpp"
#include "check/rule.hpp"

namespace vitrine::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::vector<json> objects(const std::string& out) {
  std::vector<json> all;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) all.push_back(json::parse(line));
  return all;
}

Outcome check_command(Words arguments) {
  arguments.insert(arguments.begin(), "check");
  return vitrine(std::move(arguments));
}

constexpr const char* bad_library = R"(
const unsigned custom_labels_abi_version = 1;
__thread void* custom_labels_current_set;
void* use(void) { return &custom_labels_current_set; }
)";

TEST(CheckCommand, OfWhatIsGoodSaysSoAndEndsWith0) {
  const Outcome outcome = check_command({LABELS_LIBRARY});
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr(": no rule fails; "));
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(check_command({"--profile", "all", LABELS_LIBRARY, PROBE_SUBJECT, DEMO_SERVICE}).status,
            0);
}

TEST(CheckCommand, OfWhatIsBadTellsWhatToDoAndEndsWith1) {
  const Folder folder;
  const std::string path =
      folder.make("liblabels.so", bad_library, {"-shared", "-fPIC", "-mtls-dialect=gnu"});
  const Outcome outcome = check_command({path});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out, HasSubstr("2 rules fail"));
  EXPECT_THAT(outcome.out, HasSubstr("  FAILS     labels.tlsdesc\n"));
  EXPECT_THAT(outcome.out, HasSubstr("found: it is reached by GD only\n"));
  EXPECT_THAT(outcome.out, HasSubstr("remedy: compile with gcc"));
  EXPECT_THAT(outcome.out, HasSubstr("readers affected: Parca's eBPF profiler"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("labels.version-value")));
  std::istringstream lines(outcome.out);
  std::string line;
  std::getline(lines, line);  // has the path
  while (std::getline(lines, line)) EXPECT_LE(line.size(), 80U) << line;
  EXPECT_THAT(check_command({"--verbose", path}).out, HasSubstr("labels.version-value"));
}

TEST(CheckCommand, AdviceFailsOnlyWhenItIsAskedTo) {
  const Folder folder;
  const std::string path =
      folder.make("libcustomlabels.so", std::string("#define const\n") + bad_library,
                  {"-shared", "-fPIC", "-mtls-dialect=gnu2"});
  EXPECT_EQ(check_command({path}).status, 0);
  EXPECT_THAT(check_command({path}).out, HasSubstr("advice    labels.version-constant"));
  EXPECT_EQ(check_command({"--strict", path}).status, 1);
}

TEST(CheckCommand, ThatFindsNothingFails) {
  const Folder folder;
  const std::string plain = folder.make("plain", "int main(void) { return 0; }", {});
  const Outcome nothing = check_command({plain});
  EXPECT_EQ(nothing.status, 1);
  EXPECT_THAT(nothing.err, HasSubstr("nothing to check"));
  // Of a file that ends too soon it is said that it does: what it lacks may have been right.
  const std::string cut = folder.write("cut", content_of(DEMO_SERVICE).substr(0, 5000));
  const Outcome part = check_command({cut});
  EXPECT_EQ(part.status, 1);
  EXPECT_THAT(part.err, HasSubstr("cut: the file ends after 0 of its "));
  EXPECT_THAT(part.out, HasSubstr("cut: publishes nothing"));
  const std::string quiet =
      folder.make("static", "__thread int there; int main(void) { return there; }", {"-static"});
  ASSERT_EQ(run({"strip", quiet}).status, 0);
  const Outcome unseen = check_command({quiet});
  EXPECT_EQ(unseen.status, 1);
  EXPECT_THAT(unseen.out, HasSubstr("undecided labels.slot-exported"));
  const Outcome asked = check_command({"--profile", "sdt,custom-labels-v1", plain});
  EXPECT_EQ(asked.status, 1);
  EXPECT_THAT(asked.out, HasSubstr("sdt.notes-kept"));
  EXPECT_THAT(asked.out, HasSubstr("labels.slot-exported"));
}

TEST(CheckCommand, HasTheExitCodesOfTheOthers) {
  const Outcome of_nothing = check_command({});
  EXPECT_EQ(of_nothing.status, 2);
  EXPECT_THAT(of_nothing.err, HasSubstr("for example: vitrine check "));
  EXPECT_EQ(check_command({"--profile", "nonsense", LABELS_LIBRARY}).status, 2);
  EXPECT_EQ(check_command({"--json", "--sarif", LABELS_LIBRARY}).status, 2);
  EXPECT_EQ(check_command({"/nonexistent"}).status, 4);
  EXPECT_EQ(check_command({"4194304"}).status, 4);
}

TEST(CheckCommand, AsJsonKeepsTheContract) {
  const Folder folder;
  const std::string path =
      folder.make("liblabels.so", bad_library, {"-shared", "-fPIC", "-mtls-dialect=gnu"});
  const Outcome outcome = check_command({"--json", path});
  EXPECT_EQ(outcome.status, 1);
  std::set<std::string> failed;
  for (const json& one : objects(outcome.out)) {
    EXPECT_EQ(one["target"], path);
    EXPECT_EQ(one["subject"], path);
    EXPECT_FALSE(one.contains("pid"));
    EXPECT_FALSE(one["profiles"].empty());
    EXPECT_NE(one["text"], "");
    EXPECT_NE(one["source"], "");
    if (one["verdict"] != "fails") continue;
    failed.insert(one["rule"].get<std::string>());
    EXPECT_TRUE(one["required"].get<bool>());
    EXPECT_NE(one["remedy"], "");
    EXPECT_NE(one["readers"], "");
  }
  EXPECT_EQ(failed, (std::set<std::string>{"labels.file-name", "labels.tlsdesc"}));
}

TEST(CheckCommand, OfAProcessCountsWhatItRead) {
  Child child = Child::spawn({CHECK_SUBJECT, "null-value"});
  ASSERT_EQ(child.read_line(), "ready");
  const std::string pid = std::to_string(child.pid());
  const Outcome outcome =
      check_command({"--json", "--profile", "custom-labels-v1", "--duration", "300ms", pid});
  EXPECT_EQ(outcome.status, 1);
  bool found = false;
  for (const json& one : objects(outcome.out)) {
    EXPECT_EQ(one["pid"], child.pid());
    if (one["rule"] != "labels.value-present") continue;
    found = true;
    EXPECT_EQ(one["subject"], nullptr);
    EXPECT_EQ(one["verdict"], "fails");
    EXPECT_GE(one["threads"].get<int>(), 2);
    EXPECT_GE(one["violations"].get<int>(), 2);
    EXPECT_GE(one["readings"].get<int>(), one["violations"].get<int>());
    EXPECT_THAT(one["example"].get<std::string>(), HasSubstr("null pointer"));
  }
  EXPECT_TRUE(found);
}

// Where nothing shows that a thread was at rest, what was read of it may be torn, whatever it is: not even an error is a
// reading that counts. (It is at rest while a page of its code comes from the disk; then the error is its publisher's.)
TEST(CheckCommand, AReadingThatIsNotProvenDoesNotCount) {
  Child child = Child::spawn({CHECK_SUBJECT, "lost-set", "spins"});
  ASSERT_EQ(child.read_line(), "ready");
  const Outcome outcome =
      run({"setpriv", "--bounding-set=-bpf,-perfmon,-sys_admin", "--", VITRINE, "check", "--json",
           "--duration", "300ms", std::to_string(child.pid())});
  std::string seen;
  for (const json& one : objects(outcome.out))
    if (one["rule"] == "labels.in-force") seen = one["seen"];
  EXPECT_THAT(seen, AllOf(HasSubstr("more could not be proven"), Not(HasSubstr("; 0 more"))))
      << outcome.err;
}

TEST(CheckCommand, AsSarifTellsOfWhatCouldNotBeLookedAt) {
  const Outcome outcome = check_command({"--sarif", LABELS_LIBRARY, "/no/such/file"});
  EXPECT_EQ(outcome.status, 4);
  const json invocation = json::parse(outcome.out)["runs"][0]["invocations"][0];
  EXPECT_FALSE(invocation["executionSuccessful"].get<bool>());
  ASSERT_EQ(invocation["toolExecutionNotifications"].size(), 1U);
  const json& told = invocation["toolExecutionNotifications"][0];
  EXPECT_EQ(told["level"], "error");
  EXPECT_THAT(told["message"]["text"].get<std::string>(), HasSubstr("/no/such/file"));
}

// The structure that SARIF 2.1.0 demands of what is in ours (sections 3.13, 3.14, 3.19, 3.27, 3.49).
TEST(CheckCommand, AsSarifIsOneLogWithItsRules) {
  const Folder folder;
  const std::string path =
      folder.make("lib a.so", bad_library, {"-shared", "-fPIC", "-mtls-dialect=gnu"});
  const Outcome outcome = check_command({"--sarif", "--verbose", path, PROBE_SUBJECT});
  EXPECT_EQ(outcome.status, 1);
  const json log = json::parse(outcome.out);
  EXPECT_EQ(log["version"], "2.1.0");
  ASSERT_EQ(log["runs"].size(), 1U);
  const json& run = log["runs"][0];
  const json& driver = run["tool"]["driver"];
  EXPECT_EQ(driver["name"], "vitrine");
  EXPECT_EQ(driver["rules"].size(), check::all_requirements().size());
  for (const json& rule : driver["rules"]) {
    EXPECT_NE(rule["shortDescription"]["text"], "");
    EXPECT_THAT((std::set<std::string>{"error", "warning"}),
                testing::Contains(rule["defaultConfiguration"]["level"].get<std::string>()));
  }
  EXPECT_TRUE(run["invocations"][0]["executionSuccessful"].get<bool>());
  std::set<std::string> failed;
  for (const json& result : run["results"]) {
    EXPECT_EQ(driver["rules"][result["ruleIndex"].get<std::size_t>()]["id"], result["ruleId"]);
    const bool fails = result["kind"] == "fail";
    EXPECT_EQ(result["level"] == "none", !fails) << "3.27.10: else level is none";
    EXPECT_NE(result["message"]["text"], "");
    const std::string uri =
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].get<std::string>();
    EXPECT_THAT(uri, StartsWith("file:///"));
    EXPECT_THAT(uri, Not(HasSubstr(" ")));
    if (fails && result["level"] == "error") failed.insert(result["ruleId"].get<std::string>());
  }
  EXPECT_EQ(failed, (std::set<std::string>{"labels.file-name", "labels.tlsdesc"}));
}

TEST(CheckCommand, ListsEveryRuleOnce) {
  const auto all = objects(check_command({"--list", "--json"}).out);
  std::set<std::string> ids;
  for (const json& one : all) ids.insert(one["rule"].get<std::string>());
  EXPECT_EQ(ids.size(), all.size());
  EXPECT_EQ(ids.size(), check::all_requirements().size());
  EXPECT_GT(ids.size(), 70U);
}

TEST(CheckCommand, TheDocumentHasTheTableOfTheCommand) {
  const Outcome table = check_command({"--list", "--markdown"});
  ASSERT_EQ(table.status, 0);
  EXPECT_THAT(content_of(CHECKING_DOCUMENT), HasSubstr(table.out))
      << "put the output of `vitrine check --list --markdown` into docs/checking.md";
}

TEST(CheckCommand, OfATargetsOwnBytesObeysNone) {
  const Folder folder;
  const std::string path =
      folder.make("lib\x1b[31m.so", bad_library, {"-shared", "-fPIC", "-mtls-dialect=gnu"});
  EXPECT_THAT(check_command({path}).out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(check_command({"--sarif", path}).out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(check_command({"--json", path}).out, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace vitrine::test
