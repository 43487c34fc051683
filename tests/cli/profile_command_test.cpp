// vitrine profile, on real processes: whose samples it has, with which labels and names, and where
// it writes them.
#include "cli/profile_command.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <iomanip>
#include <map>
#include <sstream>

namespace vitrine::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(ProfileCommand, ACommandThatFailsIsReported) {
  const auto errors_of = [](const std::string& script) {
    const Outcome outcome = vitrine({"profile", "--", "sh", "-c", script});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(errors_of("exit 7"), HasSubstr("note: the command ended with exit code 7\n"));
  EXPECT_THAT(errors_of("kill -SEGV $$"), HasSubstr("note: the command was ended by signal 11 ("));
  EXPECT_THAT(errors_of("true"), Not(HasSubstr("the command")));
}

TEST(ProfileCommand, HasLabelsAndWholeStacksOfEachThread) {
  Child subject = start_subject({"burn acme", "burn globex", "traced"});
  const Seen seen = profile_json({std::to_string(subject.pid())});
  for (const char* tenant : {"acme", "globex"}) {
    const auto samples = seen.where(of_tenant(tenant));
    ASSERT_THAT(samples, Not(IsEmpty())) << tenant;
    for (const json& sample : samples) {
      EXPECT_EQ(label(sample, "route"), "/pay");
      EXPECT_EQ(sample["pid"], subject.pid());
      EXPECT_EQ(sample["comm"], "burner");
      EXPECT_EQ(sample["measure"], "on_cpu");
      EXPECT_TRUE(has_frame(sample, "burn()")) << sample;
    }
  }
  const auto traced = seen.where([](const json& s) { return s.contains("trace_id"); });
  ASSERT_THAT(traced, Not(IsEmpty()));
  for (const json& sample : traced) {
    EXPECT_EQ(sample["trace_id"], "0102030405060708090a0b0c0d0e0f10");
    EXPECT_EQ(sample["span_id"], "a1a2a3a4a5a6a7a8");
  }
  // From the leaf to clone, without frame pointers.
  const auto whole = seen.where([](const json& s) { return !s.contains("end"); });
  EXPECT_GE(whole.size() * 100, seen.samples.size() * 95);
  EXPECT_EQ(seen.summary["samples"], seen.samples.size());
  ASSERT_EQ(seen.summary["processes"].size(), 1U);
  EXPECT_EQ(seen.summary["processes"][0]["executable"], PROFILE_SUBJECT);
}

TEST(ProfileCommand, WritesEveryFormatFromOneRun) {
  Child subject = start_subject({"burn acme"});
  const Directory directory;
  std::vector<std::string> words{std::to_string(subject.pid())};
  words.insert(words.end(), fast.begin(), fast.end());
  const std::vector<std::string> names{"p.pb.gz",           "p.otlp", "p.folded",
                                       "p.speedscope.json", "p.html", "p.ndjson"};
  for (const std::string& name : names) words.insert(words.end(), {"-o", directory.at(name)});
  words.insert(words.end(), {"--group-by", "tenant"});
  const Outcome outcome = profile(words);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, IsEmpty());

  const Seen seen = parse(content(directory.at("p.ndjson")));
  ASSERT_THAT(seen.samples, Not(IsEmpty()));
  std::istringstream folded(content(directory.at("p.folded")));
  std::size_t count = 0;
  bool grouped = false;
  for (std::string line; std::getline(folded, line);) {
    count += std::stoul(line.substr(line.rfind(' ') + 1));
    grouped = grouped || line.find("acme;") != std::string::npos;
  }
  EXPECT_EQ(count, seen.samples.size());
  EXPECT_TRUE(grouped);
  EXPECT_EQ(content(directory.at("p.pb.gz")).substr(0, 2), "\x1f\x8b");
  EXPECT_THAT(content(directory.at("p.otlp")), AllOf(HasSubstr("tenant"), HasSubstr("acme")));
  EXPECT_TRUE(json::parse(content(directory.at("p.speedscope.json"))).contains("profiles"));
  EXPECT_THAT(content(directory.at("p.html")), HasSubstr("<html"));
  // Nothing is left beside them.
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory.path()))
    ++files;
  EXPECT_EQ(files, names.size());
}

/// Sampling, as it says itself, when it returns. What it finds goes into `file`.
Child start_profile(const std::string& file, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(),
                   {"sh", "-c", "exec \"$@\" 2>&1", "sh", VITRINE, "profile", "--freq", "999",
                    "--duration", "60s", "--format", "json", "-o", file});
  Child profiler = Child::spawn(std::move(arguments));
  EXPECT_THAT(profiler.read_line(patience).value_or("nothing"), HasSubstr("vitrine: profiling"));
  return profiler;
}

Seen interrupt(Child& profiler, const std::string& file) {
  profiler.signal(SIGINT);
  EXPECT_EQ(profiler.wait(), 130);
  return parse(content(file));
}

/// The profile of a subject that does something while it is profiled.
Seen while_profiled(Child& subject, const std::string& command,
                    std::vector<std::string> options = {}) {
  const Directory directory;
  options.push_back(std::to_string(subject.pid()));
  Child profiler = start_profile(directory.at("p.ndjson"), std::move(options));
  ::sleep(1);
  subject.write(command + "\n");
  ::sleep(2);
  return interrupt(profiler, directory.at("p.ndjson"));
}

TEST(ProfileCommand, FollowsACommandFromItsStartToItsEnd) {
  const Directory directory;
  // The dynamic linker alone takes about a millisecond, which is one sample or none; when it writes
  // down what it does, it takes ten.
  const Outcome outcome =
      profile({"--duration", "60s", "--freq", "999", "-o", directory.at("p.ndjson"), "--exec", "--",
               "env", "LD_DEBUG=all", "LD_DEBUG_OUTPUT=" + directory.at("linker"), PROFILE_SUBJECT,
               "burn acme", "end 1000"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "ready\n");
  const Seen seen = parse(content(directory.at("p.ndjson")));
  EXPECT_THAT(seen.where(of_tenant("acme")), Not(IsEmpty()));
  // It was there before any code of the program was.
  const auto early = seen.where([](const json& s) {
    return std::any_of(s["frames"].begin(), s["frames"].end(), [](const json& frame) {
      return frame["module"].is_string() &&
             frame["module"].get<std::string>().find("ld-linux") != std::string::npos;
    });
  });
  EXPECT_THAT(early, Not(IsEmpty()));
  // The linker's first code has no call frame information, and no caller.
  for (const json& sample : early) EXPECT_NE(sample.value("end", ""), "no_rule") << sample;
  EXPECT_LT(std::stoull(seen.summary["duration_ns"].get<std::string>()), 50'000'000'000U);
}

TEST(ProfileCommand, SeesForksOnlyWhenItFollowsThem) {
  Child subject = start_subject({"burn acme", "fork"});
  const Seen without = profile_json({std::to_string(subject.pid())});
  EXPECT_THAT(without.where(of_tenant("acme")), Not(IsEmpty()));
  EXPECT_THAT(without.where(of_tenant("child")), IsEmpty());
  Child other = start_subject({});
  const Seen with = while_profiled(other, "fork", {"--follow"});
  ASSERT_THAT(with.where(of_tenant("child")), Not(IsEmpty()));
  EXPECT_TRUE(has_frame(with.where(of_tenant("child")).back(), "burn()"));
}

TEST(ProfileCommand, SeesProgramsThatChildrenExecuteOnlyWhenItFollowsThem) {
  const Child shell = Child::spawn(
      {"sh", "-c", R"(while :; do "$0" "burn child" "end 200" >/dev/null; done)", PROFILE_SUBJECT});
  const std::string pid = std::to_string(shell.pid());
  EXPECT_THAT(profile_json({pid}).where(of_tenant("child")), IsEmpty());
  EXPECT_THAT(profile_json({pid, "--follow"}).where(of_tenant("child")), Not(IsEmpty()));
}

/// Of code of PROFILE_SUBJECT that works.
bool burns(const json& sample) {
  return has_frame(sample, "burn()");
}

TEST(ProfileCommand, SeesProgramsThatChildrenOfACommandExecuteOnlyWhenItFollowsThem) {
  const auto command_with = [](std::vector<std::string> options) {
    options.insert(
        options.end(),
        {"--freq", "999", "--duration", "60s", "--exec", "--", "sh", "-c",
         R"(for n in 1 2 3 4 5; do "$0" "burn child" "end 200"; done >&2)", PROFILE_SUBJECT});
    return profile_json(std::move(options));
  };
  EXPECT_THAT(command_with({}).where(burns), IsEmpty());
  EXPECT_THAT(command_with({"--follow"}).where(burns), Not(IsEmpty()));
}

TEST(ProfileCommand, SeesThreadsAndLibrariesThatComeLater) {
  Child subject = start_subject({});
  const Seen thread = while_profiled(subject, "burn late");
  ASSERT_THAT(thread.where(of_tenant("late")), Not(IsEmpty()));
  EXPECT_TRUE(has_frame(thread.where(of_tenant("late")).front(), "burn()"));
  Child other = start_subject({});
  const Seen library = while_profiled(other, "load " PROFILE_PLUGIN);
  EXPECT_THAT(Seen::functions(library.samples), Contains("plugin_step"));
}

TEST(ProfileCommand, SeesTheProgramThatAProcessExecutes) {
  Child subject = start_subject({"burn before"});
  const Directory directory;
  std::filesystem::copy_file(PROFILE_SUBJECT, directory.at("another"));
  const Seen seen = while_profiled(subject, "exec " + directory.at("another"));
  EXPECT_THAT(seen.where(of_tenant("before")), Not(IsEmpty()));
  const auto after = seen.where(of_tenant("next"));
  ASSERT_THAT(after, Not(IsEmpty()));
  EXPECT_TRUE(has_frame(after.back(), "burn()"));
  std::vector<std::string> executables;
  for (const json& process : seen.summary["processes"])
    executables.push_back(process["executable"]);
  EXPECT_THAT(executables,
              testing::IsSupersetOf({std::string(PROFILE_SUBJECT), directory.at("another")}));
}

TEST(ProfileCommand, NamesCodeThatWasMadeAtRunTime) {
  Child subject = start_subject({"made"});
  const Seen seen = profile_json({std::to_string(subject.pid())});
  std::filesystem::remove("/tmp/perf-" + std::to_string(subject.pid()) + ".map");
  const auto made = seen.where([](const json& s) { return has_frame(s, "made_at_run_time"); });
  ASSERT_THAT(made, Not(IsEmpty()));
  EXPECT_EQ(made.front()["frames"][0]["kind"], "jit");
}

TEST(ProfileCommand, NamesFunctionsOfAFileThatIsGone) {
  const Directory directory;
  std::filesystem::copy_file(PROFILE_SUBJECT, directory.at("gone"));
  Child subject = start_subject({"burn acme"}, directory.at("gone"));
  std::filesystem::remove(directory.at("gone"));
  const Seen seen = profile_json({std::to_string(subject.pid())});
  const auto samples = seen.where(of_tenant("acme"));
  ASSERT_THAT(samples, Not(IsEmpty()));
  EXPECT_TRUE(has_frame(samples.front(), "burn()")) << samples.front();
}

TEST(ProfileCommand, NamesFunctionsInAnotherMountNamespace) {
  const Directory directory;
  const std::string script = "mount -t tmpfs none '" + directory.path().string() +
                             "' && cp '" PROFILE_SUBJECT "' '" + directory.at("inside") +
                             "' && exec '" + directory.at("inside") + "' 'burn acme'";
  Child subject = Child::spawn({"unshare", "-m", "sh", "-c", script});
  ASSERT_EQ(subject.read_line(patience).value_or("nothing"), "ready");
  ASSERT_FALSE(std::filesystem::exists(directory.at("inside")));
  const Seen seen = profile_json({std::to_string(subject.pid())});
  const auto samples = seen.where(of_tenant("acme"));
  ASSERT_THAT(samples, Not(IsEmpty()));
  EXPECT_TRUE(has_frame(samples.front(), "burn()")) << samples.front();
}

TEST(ProfileCommand, TellsTwoProcessesApart) {
  Child one = start_subject({"burn one"});
  Child two = start_subject({"burn two"});
  const Seen seen = profile_json({std::to_string(one.pid()), std::to_string(two.pid())});
  for (const auto& [child, tenant] : {std::pair(&one, "one"), std::pair(&two, "two")}) {
    ASSERT_THAT(seen.where(of_tenant(tenant)), Not(IsEmpty()));
    for (const json& sample : seen.where(of_tenant(tenant))) EXPECT_EQ(sample["pid"], child->pid());
  }
}

TEST(ProfileCommand, SeesTheWholeMachine) {
  Child one = start_subject({"burn one"});
  Child two = start_subject({"burn two"});
  const Seen seen = profile_json({"--all"});
  for (const auto& [child, tenant] : {std::pair(&one, "one"), std::pair(&two, "two")}) {
    const auto samples = seen.where([&, pid = child->pid()](const json& s) {
      return s["pid"] == pid && has_frame(s, "burn()");
    });
    ASSERT_THAT(samples, Not(IsEmpty()));
    EXPECT_EQ(label(samples.back(), "tenant"), tenant);
  }
}

TEST(ProfileCommand, SeesWhatWaits) {
  Child subject = start_subject({"wait acme", "burn globex"});
  const std::string pid = std::to_string(subject.pid());
  const Seen off = profile_json({pid, "--off-cpu", "--min-block", "10ms"});
  const auto waits = off.where(of_tenant("acme"));
  ASSERT_THAT(waits, Not(IsEmpty()));
  for (const json& sample : waits) {
    EXPECT_EQ(sample["measure"], "off_cpu");
    EXPECT_TRUE(has_frame(sample, "wait_in_turn()")) << sample;
    EXPECT_GE(sample["value_ns"].get<std::uint64_t>(), 10'000'000U);
  }
  EXPECT_THAT(off.where(of_tenant("globex")), IsEmpty());
  const Seen both = profile_json({pid, "--off-cpu", "--on-cpu"});
  EXPECT_THAT(both.where(of_tenant("globex")), Not(IsEmpty()));
  EXPECT_THAT(both.where(of_tenant("acme")), Not(IsEmpty()));
}

TEST(ProfileCommand, SeesWhatWaitsSinceBeforeAndNeverRuns) {
  Child subject = start_subject({"block acme"});
  const std::string pid = std::to_string(subject.pid());
  profile_json({pid, "--off-cpu", "--min-block", "100ms"});
  const Seen seen = profile_json({pid, "--off-cpu", "--min-block", "100ms"});  // it waits by now
  const auto waits = seen.where(of_tenant("acme"));
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_TRUE(has_frame(waits.front(), "wait_for_ever()")) << waits.front();
  EXPECT_GE(waits.front()["value_ns"].get<std::uint64_t>(), 1'400'000'000U);
  EXPECT_EQ(seen.samples.size(), 2u) << "the first thread waits for a line";
}

TEST(ProfileCommand, FiltersAndGroups) {
  Child subject = start_subject({"burn acme", "burn globex"});
  const std::string pid = std::to_string(subject.pid());
  const Seen seen = profile_json({pid, "--filter", "tenant=acme,route~^/p"});
  ASSERT_THAT(seen.samples, Not(IsEmpty()));
  EXPECT_EQ(seen.where(of_tenant("acme")).size(), seen.samples.size());

  const Outcome none = profile({pid, "--filter", "tenant == acme", "--duration", "300ms"});
  EXPECT_EQ(none.status, 0) << none.err;
  EXPECT_THAT(none.err, AllOf(HasSubstr("no sample matches --filter"),
                              Not(HasSubstr("no sample was of a thread"))));

  std::vector<std::string> words{"--top", "tenant,route", pid};
  words.insert(words.end(), fast.begin(), fast.end());
  const Outcome top = profile(words);
  EXPECT_EQ(top.status, 0) << top.err;
  EXPECT_THAT(top.out, testing::ContainsRegex("on CPU +share +samples +tenant +route"));
  EXPECT_THAT(top.out, testing::ContainsRegex("[0-9]+% +[0-9]+ +acme +/pay"));
  EXPECT_THAT(top.out, testing::ContainsRegex("[0-9]+% +[0-9]+ +globex +/pay"));
}

TEST(ProfileCommand, RefreshesATable) {
  Child subject = start_subject({"burn acme"});
  Child profiler = Child::spawn({VITRINE, "profile", std::to_string(subject.pid()), "--top",
                                 "tenant", "--watch=300ms", "--freq", "999"});
  int tables = 0, rows = 0;
  while (tables < 3 || rows < 2) {
    const auto line = profiler.read_line(patience);
    ASSERT_TRUE(line.has_value());
    tables += line->find("tenant") != std::string::npos;
    rows += line->find("acme") != std::string::npos;
  }
  profiler.signal(SIGINT);
  EXPECT_EQ(profiler.wait(), 130);
}

TEST(ProfileCommand, SumsUpOnTheTerminal) {
  Child subject = start_subject({"burn acme", "burn globex"});
  std::vector<std::string> words{std::to_string(subject.pid())};
  words.insert(words.end(), fast.begin(), fast.end());
  const Outcome outcome = profile(words);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("samples on CPU"), HasSubstr("by tenant"), HasSubstr("acme"),
                    HasSubstr("globex"), HasSubstr("functions on CPU"), HasSubstr("burn_step")));
  EXPECT_THAT(outcome.err, HasSubstr("-o profile.html"));
}

TEST(ProfileCommand, TableReportsLabelsThatASampleCannotCarry) {
  Child subject = start_subject({"large acme"});
  std::vector<std::string> words{std::to_string(subject.pid()), "--top", "tenant"};
  words.insert(words.end(), fast.begin(), fast.end());
  const Outcome outcome = profile(words);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("acme"), Not(HasSubstr("(none)"))));
  EXPECT_THAT(outcome.err, HasSubstr("samples with cut labels"));
  words.insert(words.end(), {"--watch=500ms"});
  const Outcome refreshed = profile(words);
  EXPECT_EQ(refreshed.status, 0) << refreshed.err;
  EXPECT_THAT(refreshed.out, HasSubstr("samples with cut labels"));
}

// Giving back memory is a part of it that happens after a thread's last user code.
TEST(ProfileCommand, CountsTheTimeOfProcessesUntilTheirVeryEnd) {
  const Directory directory;
  const Outcome outcome = profile({"--follow", "--freq", "999", "-o", directory.at("p.ndjson"),
                                   "--exec", "--", PROFILE_SUBJECT, "children 24"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const auto at = outcome.err.find("children took ");
  ASSERT_NE(at, std::string::npos) << outcome.err;
  const double used_ms = std::stod(outcome.err.substr(at + std::strlen("children took ")));
  const Seen seen = parse(content(directory.at("p.ndjson")));
  const auto main_pid = seen.samples.at(0)["pid"];  // the program itself, before it forks
  const auto of_children =
      seen.where([&](const json& sample) { return sample["pid"] != main_pid; });
  const auto after_the_end =
      seen.where([](const json& sample) { return has_frame(sample, "do_exit"); });
  EXPECT_GT(used_ms, 300) << "too little to measure";
  EXPECT_GT(after_the_end.size(), of_children.size() / 50);
  const double lost = seen.summary["lost"];
  EXPECT_NEAR((static_cast<double>(of_children.size()) + lost) / 0.999, used_ms, used_ms * 0.05);
}

// Which callers make the difference between tenants.
TEST(ProfileCommand, ShowsCallersByTenant) {
  Child subject = start_subject({"burn acme", "burn globex", "traced"});
  std::vector<std::string> words{std::to_string(subject.pid())};
  words.insert(words.end(), fast.begin(), fast.end());
  const std::string out = profile(words).out;
  const auto callers = out.find("functions on CPU, with what they call");
  ASSERT_NE(callers, std::string::npos) << out;
  const std::string table = out.substr(callers);
  EXPECT_THAT(table, AllOf(HasSubstr("total of each tenant"), HasSubstr("acme"),
                           HasSubstr("globex"), HasSubstr("burn()")));
}

// As hands know them from perf and top.
TEST(ProfileCommand, TakesTheSpellingsOfOtherTools) {
  Child subject = start_subject({"burn acme"});
  const std::string pid = std::to_string(subject.pid());
  const auto has_acme = [](const Outcome& outcome) {
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(parse(outcome.out).where(of_tenant("acme")), Not(IsEmpty())) << outcome.err;
  };
  has_acme(profile({"-g", "-F", "999", "-d", "1", "-p", pid, "--format", "json"}));
  has_acme(profile({"-F", "999", "--duration", "1.5", "-n",
                    std::filesystem::path(PROFILE_SUBJECT).filename(), "--format", "json"}));
  const Directory directory;  // standard output is the program's
  const std::string file = directory.at("p.ndjson");
  Outcome started =
      profile({"-F", "999", "-d", "1.5s", "-o", file, "--", PROFILE_SUBJECT, "burn acme"});
  started.out = content(file);
  has_acme(started);
  const Outcome nobody = profile({"-n", "no-such-program"});
  EXPECT_EQ(nobody.status, 4);
  EXPECT_THAT(nobody.err, HasSubstr("no process is called 'no-such-program'"));
}

TEST(ProfileCommand, ShowsItsTableThoughAFileIsNotWritten) {
  Child subject = start_subject({"burn acme"});
  const Outcome outcome =
      profile({std::to_string(subject.pid()), "--freq", "999", "--duration", "500ms", "--format",
               "json", "-o", "/dev/full", "--top", "tenant"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("/dev/full"));
  EXPECT_THAT(outcome.out, HasSubstr("acme"));
}

TEST(ProfileCommand, NotesAKeyOfRedactThatNothingHas) {
  Child subject = start_subject({"burn acme"});
  const Directory directory;
  const Outcome outcome =
      profile({std::to_string(subject.pid()), "--freq", "999", "--duration", "500ms", "--redact",
               "tenant", "--redact", "rout", "-o", directory.at("p.otlp")});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("matched --redact rout\n"), Not(HasSubstr("--redact tenant"))));
  const Outcome merged =
      vitrine({"profile", "merge", directory.at("p.otlp"), "--redact", "tennant"});
  EXPECT_THAT(merged.err, HasSubstr("matched --redact tennant\n"));
}

/// Of the first command in a pipe to one that reads a line and ends, and what it printed to standard error.
std::pair<int, std::string> with_a_reader_of_one_line(const std::vector<std::string>& arguments) {
  std::vector<std::string> words{
      "bash", "-c",    R"("$@" | { read -r line; exec <&-; }; exit "${PIPESTATUS[0]}")",
      "bash", VITRINE, "profile"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const Outcome outcome = run(words);
  return {outcome.status, outcome.err};
}

TEST(ProfileCommand, EndsWithoutAFailureWhereItsReaderIsGone) {
  Child subject = start_subject({"burn acme", "burn globex"});
  const std::string pid = std::to_string(subject.pid());
  const std::vector<std::vector<std::string>> all{
      {pid, "--freq", "9999", "--duration", "2s", "-o", "-", "--format", "json"},
      {pid, "--freq", "999", "--continuous", "300ms", "-o", "-", "--format", "json"}};
  for (const auto& arguments : all) {
    const auto [status, errors] = with_a_reader_of_one_line(arguments);
    EXPECT_EQ(status, 0) << errors;
    EXPECT_THAT(errors, Not(HasSubstr("standard output")));
  }
}

TEST(ProfileCommand, SamplesNoLongerThanItsDurationWhereItIsHeldUp) {
  Child subject = start_subject({"burn acme", "wait globex"});
  const Directory directory;
  // What it prints once it samples waits for a reader, longer than the profile takes.
  Child profiler =
      Child::spawn({"sh", "-c", R"(head -c 65536 /dev/zero >&2; exec "$@")", "sh", VITRINE,
                    "profile", std::to_string(subject.pid()), "--on-cpu", "--off-cpu", "--duration",
                    "500ms", "-o", directory.at("p.ndjson")});
  ::sleep(3);
  EXPECT_THAT(profiler.rest_of_errors(patience), HasSubstr("vitrine: profiling"));
  ASSERT_EQ(profiler.wait(), 0);
  const Seen seen = parse(content(directory.at("p.ndjson")));
  ASSERT_THAT(seen.samples, Not(IsEmpty()));
  const auto number = [](const json& value) { return std::stoull(value.get<std::string>()); };
  const std::uint64_t start = number(seen.summary["start_ns"]);
  constexpr std::uint64_t duration = 500'000'000;
  EXPECT_EQ(number(seen.summary["duration_ns"]), duration);
  for (const json& sample : seen.samples) {
    EXPECT_GE(number(sample["ts_ns"]), start) << sample;
    EXPECT_LT(number(sample["ts_ns"]), start + duration) << sample;
    const bool is_off = sample["measure"] == "off_cpu";
    EXPECT_LE(is_off ? sample["value_ns"].get<std::uint64_t>() : 0, duration) << sample;
  }
}

TEST(ProfileCommand, WritesWhatItHasWhenInterrupted) {
  Child subject = start_subject({"burn acme"});
  const Directory directory;
  Child profiler = start_profile(directory.at("p.ndjson"), {std::to_string(subject.pid())});
  ::sleep(1);
  EXPECT_THAT(interrupt(profiler, directory.at("p.ndjson")).where(of_tenant("acme")),
              Not(IsEmpty()));
}

/// The build id among the notes of the running kernel (elf(5)), in hex.
std::string kernel_build_id() {
  const std::string notes = content("/sys/kernel/notes");
  const auto word = [&](std::size_t at) {
    std::uint32_t value = 0;
    std::memcpy(&value, notes.data() + at, sizeof value);
    return value;
  };
  for (std::size_t at = 0; at + 12 <= notes.size();) {
    const std::size_t name = (word(at) + 3) / 4 * 4, size = word(at + 4);
    if (word(at + 8) == 3 && notes.compare(at + 12, 3, "GNU") == 0) {
      std::ostringstream hex;
      for (const unsigned char byte : notes.substr(at + 12 + name, size))
        hex << std::hex << std::setw(2) << std::setfill('0') << unsigned{byte};
      return hex.str();
    }
    at += 12 + name + (size + 3) / 4 * 4;
  }
  return {};
}

TEST(ProfileCommand, NamesTheKernelByItsBuildId) {
  const std::string id = kernel_build_id();
  ASSERT_THAT(id, Not(IsEmpty()));
  Child subject = start_subject({"wait acme"});
  const Directory directory;
  const std::string file = directory.at("p.otlp");
  const Outcome outcome =
      profile({std::to_string(subject.pid()), "--off-cpu", "--duration", "2s", "-o", file});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(content(file), AllOf(HasSubstr("[kernel]"), HasSubstr(id)));
}

TEST(ProfileCommand, KeepsAddressesAndBuildIdsWithoutNames) {
  Child subject = start_subject({"burn acme"});
  const auto id = run({"sh", "-c", "readelf -n " PROFILE_SUBJECT " | sed -n 's/.*Build ID: //p'"});
  ASSERT_GT(id.out.size(), 16U) << id.err;
  const Directory directory;
  const std::string otlp = directory.at("p.otlp"), pprof = directory.at("p.pb.gz");
  std::vector<std::string> words{
      std::to_string(subject.pid()), "--no-symbols", "-o", otlp, "-o", pprof};
  words.insert(words.end(), fast.begin(), fast.end());
  const Outcome outcome = profile(words);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(content(otlp), AllOf(HasSubstr(id.out.substr(0, id.out.find('\n'))),
                                   HasSubstr("acme"), Not(HasSubstr("burn_step"))));
  // The names are still to be had: pprof reads them from the file.
  const Outcome raw = run({"sh", "-c", "gzip -dc " + pprof});
  EXPECT_THAT(raw.out, AllOf(HasSubstr("acme"), Not(HasSubstr("burn_step"))));
}

}  // namespace
}  // namespace vitrine::test
