// vitrine trace: single slow pairs, the items that speak of where a fire comes from, and which
// processes and files are traced; against bpftrace where it has the same.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "cli/command.hpp"

namespace vitrine::test {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

constexpr const char* pair = "pair:begin,pair:end";

/// What a trace of the subject prints.
Outcome trace_pairs(std::vector<std::string> options, std::vector<std::string> subject) {
  std::vector<std::string> words{"trace", "--latency", pair};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--exec", "--", PAIR_SUBJECT});
  words.insert(words.end(), subject.begin(), subject.end());
  return vitrine(words);
}

std::vector<json> objects(const std::string& text) {
  std::vector<json> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with('{')) all.push_back(json::parse(line));
  return all;
}

/// Held at `wait`, so that tracers can attach.
Child start_waiting(std::vector<std::string> words) {
  words.insert(words.begin(), {PAIR_SUBJECT, "wait"});
  Child child = Child::spawn(words);
  EXPECT_THAT(child.read_line().value_or(""), HasSubstr("ready"));
  return child;
}

TEST(TracePairs, ShowsThePairsThatTookLonger) {
  const Outcome done = trace_pairs({"--slower", "4ms", "--json"}, {"plain", "200"});
  EXPECT_EQ(done.status, 0) << done.err;
  std::set<int> slow;
  for (const json& event : objects(done.out)) {
    const int id = event["args"][1];
    slow.insert(id);
    EXPECT_EQ(event["probe"], "pair:end");
    EXPECT_EQ(event["args"], json({id * 2, id}));
    EXPECT_EQ(event["arg_names"], json({"status", "id"}));
    EXPECT_GT(event["duration_ns"], 4'000'000);
    const json& start = event["start"];
    EXPECT_EQ(start["probe"], "pair:begin");
    EXPECT_EQ(start["args"], json({id, "operation " + std::to_string(id)}));
    EXPECT_EQ(start["arg_names"], json({"id", "name"}));
    EXPECT_EQ(start["module"], PAIR_SUBJECT);
    EXPECT_EQ(std::stoull(event["ts_ns"].get<std::string>()) -
                  std::stoull(start["ts_ns"].get<std::string>()),
              event["duration_ns"].get<std::uint64_t>());
  }
  for (int id = 3; id < 200; id += 10) EXPECT_TRUE(slow.contains(id)) << id;
  EXPECT_LT(slow.size(), 60U) << "the others take microseconds";
  EXPECT_THAT(done.err,
              HasSubstr(std::to_string(slow.size()) + " of 200 pairs shown: longer than 4ms"));
  EXPECT_THAT(trace_pairs({"--slower", "10s"}, {"plain", "20"}).err,
              HasSubstr("0 of 20 pairs shown"));
}

TEST(TracePairs, ANameThatNoFireHasIsNamed) {
  const Outcome outcome = vitrine(
      {"trace", "pair:end", "--show", "nosuch, arg0", "--exec", "--", PAIR_SUBJECT, "plain", "20"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("no fire has an argument or a label 'nosuch'"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("'arg0'")));
}

TEST(TracePairs, AsTextWithBothEndsAndTheStack) {
  const Outcome done =
      trace_pairs({"--slower", "4ms", "--stack", "--where", "id == 3"}, {"plain", "20"});
  EXPECT_THAT(
      done.out,
      testing::ContainsRegex(
          "  ([5-9]|[1-9][0-9]+)\\.[0-9]*ms  pair:begin\\(id=3, name=\"operation 3\"\\) (→|->) "
          "pair:end\\(status=6, id=3\\)\n    end\\+0x"));
  EXPECT_THAT(done.out, Not(HasSubstr("id=13")));
  EXPECT_THAT(trace_pairs({"--slower", "4ms", "--show", "hex(id) as x"}, {"plain", "4"}).out,
              HasSubstr("pair:begin(id=3, name=\"operation 3\") → pair:end(x=0x3)"));
}

TEST(TracePairs, AreThePairsOfLatencies) {
  for (const std::string match : {"", "id"}) {
    std::vector<std::string> options{"--slower", "4ms", "--json"};
    if (!match.empty()) options.insert(options.end(), {"--match", match});
    const auto starts = [&](const std::vector<std::string>& words) {
      std::vector<int> ids;
      for (const json& event : objects(trace_pairs(options, words).out))
        ids.push_back(event["start"]["args"][0]);
      return ids;
    };
    using Ids = std::vector<int>;
    EXPECT_EQ(starts({"nested"}), match.empty() ? Ids{2} : (Ids{2, 1})) << match;
    EXPECT_EQ(starts({"crossing"}), match.empty() ? Ids{} : Ids{71}) << match;
    EXPECT_EQ(starts({"fork"}), Ids{}) << match << ": without --follow a child is not traced";
    // A latency has as many.
    for (const std::string word : {"nested", "crossing", "lonely"}) {
      std::vector<std::string> latency{"--json"};
      if (!match.empty()) latency.insert(latency.end(), {"--match", match});
      std::uint64_t pairs = 0;
      for (const json& row : objects(trace_pairs(latency, {word}).out))
        if (row.contains("count")) pairs += row["count"].get<std::uint64_t>();
      EXPECT_THAT(trace_pairs(options, {word}).err,
                  HasSubstr(" of " + std::to_string(pairs) + " pairs"))
          << word << ' ' << match;
    }
  }
  const Outcome lonely = trace_pairs({"--slower", "1ns"}, {"lonely"});
  EXPECT_THAT(lonely.err, HasSubstr("1 of 1 pairs"));
  EXPECT_THAT(lonely.err, HasSubstr("1 end without a start"));
  EXPECT_THAT(lonely.err, HasSubstr("1 start without an end"));
}

TEST(TracePairs, LongTextsOfAStartAreCut) {
  const auto events = objects(trace_pairs({"--slower", "4ms", "--json"}, {"long"}).out);
  ASSERT_EQ(events.size(), 1U);
  const json& arguments = events[0]["start"]["args"];
  EXPECT_EQ(arguments[0], 9);
  for (const std::size_t i : {1, 2}) {
    const std::string text = arguments[i];
    EXPECT_EQ(text, std::string(text.size(), i == 1 ? 'a' : 'b'));
    EXPECT_GE(text.size(), 200U);
    EXPECT_EQ(events[0]["truncated"][i - 1]["what"], "start.args[" + std::to_string(i) + "]");
  }
}

TEST(TracePairs, RedactsBothEnds) {
  const Outcome done = trace_pairs(
      {"--slower", "4ms", "--json", "--redact", "name", "--redact", "status"}, {"plain", "4"});
  ASSERT_EQ(objects(done.out).size(), 1U) << done.err;
  EXPECT_THAT(done.out, Not(HasSubstr("operation")));
  EXPECT_THAT(done.out, Not(HasSubstr("[6,")));
}

TEST(TracePairs, OptionsThatMakeNoSenseAreUsageErrors) {
  const auto fails = [](std::vector<std::string> options, const std::string& message) {
    options.insert(options.begin(), "trace");
    options.insert(options.end(), {"--exec", "--", PAIR_SUBJECT, "plain", "1"});
    const Outcome failed = vitrine(options);
    EXPECT_EQ(failed.status, 2) << message << failed.err;
    EXPECT_THAT(failed.err, HasSubstr(message));
    EXPECT_GE(std::count(failed.err.begin(), failed.err.end(), '\n'), 2) << failed.err;
  };
  fails({"--slower", "1ms"}, "--slower requires the two probes of a pair");
  fails({"--slower", "1ms", "--count"}, "--slower requires the two probes of a pair");
  fails({"--slower", "1", "--latency", pair}, "invalid duration '1'");
  fails({"--slower", "-1ms", "--latency", pair}, "invalid duration '-1ms'");
  fails({"--slower", "1ms", "--latency", pair, "--by", "id"}, "--by groups latencies");
  fails({"--slower", "1ms", "--latency", pair, "--interval", "1s"}, "--interval requires");
  fails({"pair:begin", "--slower", "1ms", "--latency", pair}, "unexpected argument pair:begin");
  fails({"--slower", "1ms", "--latency", pair, "--match", "label.request"},
        "--slower cannot match by 'request'");
  fails({"--where", "stack ~ 'a*'"}, "a condition cannot ask for the stack");
}

TEST(TracePairs, AreThoseThatBpftraceFinds) {
  Child child = start_waiting({"plain", "300"});
  const std::string usdt = std::string("usdt:") + PAIR_SUBJECT + ":pair:";
  Child peer = Child::spawn(
      {"bpftrace", "-p", std::to_string(child.pid()), "-e",
       "BEGIN { printf(\"begun\\n\"); } " + usdt + "begin { @since[tid] = nsecs; } " + usdt +
           "end / @since[tid] && nsecs - @since[tid] > 4000000 / { printf(\"%d\\n\", arg1); } " +
           usdt + "end { delete(@since[tid]); }"});
  std::optional<std::string> line;
  do line = peer.read_line(patience);
  while (line && *line != "begun");
  ASSERT_TRUE(line) << peer.rest_of_errors(milliseconds(100));
  std::this_thread::sleep_for(milliseconds(500));  // it attaches before BEGIN, or a little later
  Child tracer =
      start_trace({std::to_string(child.pid()), "--latency", pair, "--slower", "4ms", "--json"});
  child.write("go\n");
  std::set<int> ours;
  for (auto event = tracer.read_line(patience); event; event = tracer.read_line(patience))
    if (event->starts_with('{')) ours.insert(json::parse(*event)["start"]["args"][0].get<int>());
  std::set<int> theirs;
  for (int i = 0; i < 30; ++i) theirs.insert(std::stoi(peer.read_line(patience).value_or("-1")));
  EXPECT_GE(ours.size(), 30U);
  for (int id = 3; id < 300; id += 10) {
    EXPECT_TRUE(ours.contains(id)) << id;
    EXPECT_TRUE(theirs.contains(id)) << id;
  }
}

/// A group of the unified hierarchy, and a process in it. Nothing: this user may not make groups.
class Group {
 public:
  explicit Group(const std::string& name) {
    std::ifstream table("/proc/self/mountinfo");
    for (std::string line; std::getline(table, line);) {
      if (line.find(" - cgroup2 ") == line.npos) continue;
      std::istringstream fields(line);
      std::string field;
      for (int i = 0; i < 5; ++i) fields >> field;
      mount_ = field;
    }
    path_ = "/vitrine-test-" + std::to_string(::getpid());
    std::error_code error;
    std::filesystem::create_directories(directory() + "/" + name, error);
    if (error) mount_.clear();
    below_ = name;
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() { remove(); }

  [[nodiscard]] bool is_there() const { return !mount_.empty(); }
  [[nodiscard]] std::string path() const { return path_ + "/" + below_; }
  [[nodiscard]] std::uint64_t id() const {
    struct stat its {};
    ::stat((mount_ + path()).c_str(), &its);
    return its.st_ino;
  }
  void add(pid_t pid) const { std::ofstream(mount_ + path() + "/cgroup.procs") << pid; }
  void remove() {
    if (!is_there()) return;
    ::rmdir((mount_ + path()).c_str());
    ::rmdir(directory().c_str());
  }

 private:
  [[nodiscard]] std::string directory() const { return mount_ + path_; }
  std::string mount_, path_, below_;
};

TEST(TracePairs, NamesUserControlGroupAndContainer) {
  const std::string id(64, 'c');
  Group group("docker-" + id + ".scope");
  if (!group.is_there()) GTEST_SKIP() << "no control groups can be made here";
  Child child = start_waiting({"plain", "1"});
  group.add(child.pid());
  const std::string pid = std::to_string(child.pid());
  Child peer = Child::spawn({"bpftrace", "-p", pid, "-e",
                             std::string("BEGIN { printf(\"begun\\n\"); } usdt:") + PAIR_SUBJECT +
                                 ":pair:begin { printf(\"%lu %d\\n\", cgroup, uid); }"});
  std::optional<std::string> line;
  do line = peer.read_line(patience);
  while (line && *line != "begun");
  std::this_thread::sleep_for(milliseconds(500));
  Child text = start_trace({pid, "pair:begin", "--show", "uid, cgroup, container"});
  Child counts = start_trace({pid, "pair:begin", "--count", "--by", "uid, cgroup, container"});
  Child tracer = start_trace({pid, "pair:begin", "--json", "--show", "uid, cgroup, container",
                              "--where", "container and uid == " + std::to_string(::getuid())});
  child.write("go\n");
  const json event = json::parse(tracer.read_line(patience).value_or("null"));
  EXPECT_EQ(event["args"], json({::getuid(), group.path(), id}));
  EXPECT_EQ(peer.read_line(patience).value_or(""),
            std::to_string(group.id()) + " " + std::to_string(::getuid()));
  EXPECT_THAT(text.read_line(patience).value_or(""),
              HasSubstr("container=" + id.substr(0, 12) + ")"));
  EXPECT_THAT(counts.read_line(patience).value_or(""), HasSubstr("UID"));
  const std::string row = counts.read_line(patience).value_or("");
  EXPECT_THAT(row, HasSubstr(group.path().substr(0, 20)));
  EXPECT_THAT(row, HasSubstr("  " + id.substr(0, 12) + "  "));
}

TEST(TracePairs, AGroupThatIsGoneHasItsNumber) {
  Group group("short");
  if (!group.is_there()) GTEST_SKIP() << "no control groups can be made here";
  Child child = start_waiting({"plain", "1"});
  group.add(child.pid());
  const std::string number = std::to_string(group.id());
  // Stopped, it reads the event when both are gone.
  Child tracer = start_trace(
      {std::to_string(child.pid()), "pair:begin", "--json", "--show", "cgroup, container"});
  tracer.signal(SIGSTOP);
  child.write("go\n");
  EXPECT_EQ(child.wait(), 0);
  group.remove();
  tracer.signal(SIGCONT);
  const json event = json::parse(tracer.read_line(patience).value_or("null"));
  EXPECT_EQ(event["args"], json({number, nullptr}));
}

TEST(TracePairs, GroupsByStack) {
  const Outcome done = vitrine({"trace", "pair:begin", "--count", "--by", "stack", "--json",
                                "--exec", "--", PAIR_SUBJECT, "plain", "20", "nested"});
  std::map<std::string, int> counts;
  for (const json& row : objects(done.out)) {
    const json& stack = row["by"]["stack"];
    ASSERT_GE(stack.size(), 2U) << row;
    EXPECT_THAT(stack[0].get<std::string>(),
                testing::MatchesRegex("begin\\+0x.* \\(pair_subject\\)"));
    const std::string caller = stack[1];
    counts[caller.substr(0, caller.find('+'))] += row["count"].get<int>();
  }
  EXPECT_EQ(counts, (std::map<std::string, int>{{"operate", 21}, {"main", 1}})) << done.out;
  const Outcome text = vitrine({"trace", "pair:begin", "--count", "--by", "stack", "--exec", "--",
                                PAIR_SUBJECT, "plain", "20"});
  EXPECT_THAT(text.out, testing::ContainsRegex("COUNT\n +20\n      begin\\+0x[0-9a-f]+ "
                                               "\\(pair_subject\\)\n      operate\\+0x"));
  EXPECT_THAT(vitrine({"trace", "pair:begin", "--count", "--by", "label.stack", "--exec", "--",
                       PAIR_SUBJECT, "plain", "3"})
                  .out,
              HasSubstr("  STACK  COUNT\n  -          3"));
}

TEST(TracePairs, SeveralProcessesOrFilesInOneTrace) {
  const std::string other = std::string(PAIR_SUBJECT) + ".copy";
  std::filesystem::copy_file(PAIR_SUBJECT, other,
                             std::filesystem::copy_options::overwrite_existing);
  const auto counts = [&](std::vector<std::string> targets, const std::string& by) {
    Child first = start_waiting({"plain", "4"});
    Child second = Child::spawn({other, "wait", "plain", "8"});
    EXPECT_THAT(second.read_line().value_or(""), HasSubstr("ready"));
    Child third = start_waiting({"plain", "16"});
    for (std::string& word : targets) {
      if (word == "FIRST") word = std::to_string(first.pid());
      if (word == "SECOND") word = std::to_string(second.pid());
      if (word == "BOTH") word = std::to_string(first.pid()) + ',' + std::to_string(second.pid());
    }
    targets.insert(targets.end(), {"pair:begin", "--count", "--by", by, "--json"});
    Child tracer = start_trace(targets);
    for (Child* child : {&first, &second, &third}) {
      child->write("go\n");
      EXPECT_EQ(child->wait(), 0);
    }
    std::this_thread::sleep_for(milliseconds(200));
    tracer.signal(SIGINT);
    int sum = 0;
    for (auto line = tracer.read_line(patience); line; line = tracer.read_line(patience))
      if (line->starts_with('{')) sum += json::parse(*line)["count"].get<int>();
    return sum;
  };
  EXPECT_EQ(counts({"FIRST", "SECOND"}, "pid"), 12);
  EXPECT_EQ(counts({"--pid", "BOTH"}, "pid"), 12);
  EXPECT_EQ(counts({"--pid", "FIRST", "--pid", "SECOND"}, "pid"), 12);
  EXPECT_EQ(counts({PAIR_SUBJECT, other}, "module"), 28);
  EXPECT_EQ(counts({other}, "module"), 8);
  EXPECT_EQ(counts({"FIRST", "SECOND", "--module", "*.copy"}, "module"), 8);
  EXPECT_EQ(counts({PAIR_SUBJECT, other, "--module", "pair_subject"}, "module"), 20);
  const std::string relative = "./" + std::filesystem::proximate(other).string();
  EXPECT_EQ(counts({"FIRST", "SECOND", "--module", relative}, "module"), 8);
  EXPECT_EQ(counts({"FIRST", "SECOND", "--module", relative.substr(0, relative.size() - 1) + "*"},
                   "module"),
            8);
  const std::string link = other + ".link";
  std::filesystem::create_symlink(other, link);
  EXPECT_EQ(counts({"FIRST", "SECOND", "--module", link}, "module"), 8);
  std::filesystem::remove(link);
  std::filesystem::remove(other);
}

TEST(TracePairs, WaitsForAPluginThatIsNotLoadedYet) {
  Child child = Child::spawn({TRACE_SUBJECT});
  EXPECT_THAT(child.read_line().value_or(""), HasSubstr("ready"));
  const std::string pid = std::to_string(child.pid());
  EXPECT_EQ(vitrine({"trace", pid, "plugin:*", "-d", "1ms"}).status, 1);
  const Outcome never =
      vitrine({"trace", pid, "plugin:*", "--module", "*trace_plugin.so", "-d", "100ms"});
  EXPECT_EQ(never.status, 1);
  EXPECT_THAT(never.err, HasSubstr("waiting for it"));
  EXPECT_THAT(never.err, HasSubstr("no file that matches --module *trace_plugin.so was loaded"));
  Child tracer = Child::spawn({VITRINE, "trace", pid, "plugin:*", "--module", "*trace_plugin.so",
                               "--json", "--limit", "1"});
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::this_thread::sleep_for(milliseconds(500));
  EXPECT_EQ(tell(child, std::string("open ") + TRACE_PLUGIN), "open well");
  std::optional<std::string> line;
  while (!line && std::chrono::steady_clock::now() < deadline) {
    EXPECT_EQ(tell(child, "again 1"), "again");
    line = tracer.read_line(milliseconds(50));
  }
  EXPECT_EQ(json::parse(line.value_or("null"))["probe"], "plugin:called");
  EXPECT_EQ(tracer.wait(), 0);
}

/// 32 threads that fire as fast as they can, with the default buffer, to a file.
TEST(TracePairs, ABurstOfThreadsLosesLessThanOnePercent) {
  constexpr std::uint64_t fires = 32 * 4000;
  const std::string file = "burst-" + std::to_string(::getpid()) + ".json";
  Child child = start_waiting({"threads", "4000"});
  const pid_t pid = child.pid();
  Child tracer = Child::spawn({"sh", "-c", "exec \"$0\" \"$@\" 2>&1 >" + file, VITRINE, "trace",
                               std::to_string(pid), "pair:begin", "--json"});
  EXPECT_THAT(tracer.read_line(patience).value_or(""), HasSubstr("vitrine: tracing"));
  child.write("go\n");
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(tracer.wait(patience), 0);
  std::uint64_t shown = 0;
  std::uint64_t lost = 0;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("{\"lost\""))
      lost += json::parse(line)["lost"].get<std::uint64_t>();
    else
      ++shown;
  std::filesystem::remove(file);
  EXPECT_EQ(shown + lost, fires);
  EXPECT_LT(lost, fires / 100);
}

}  // namespace
}  // namespace vitrine::test
