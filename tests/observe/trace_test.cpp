// Traces of live processes: which fires are seen, and what they say.
#include "observe/trace/trace.hpp"

#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "observe/trace_subject.hpp"
#include "target/threads.hpp"

namespace vitrine::test {
namespace {

using probe::StringValue;
using probe::Value;

std::map<std::string, int> count_by_probe(const std::vector<SeenFire>& fires) {
  std::map<std::string, int> counts;
  for (const SeenFire& fire : fires) ++counts[fire.probe];
  return counts;
}

TEST(Trace, EverySiteOfAProbeWithItsNamesAndTypes) {
  Child child = start_trace_subject();
  const auto trace = open_trace(of_process(child.pid(), {"subject:shot"}));
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->probes(), std::vector<std::string>{"subject:shot"});
  EXPECT_EQ(tell(child, "fire 100"), "fire");
  const auto fires = collect(*trace, 100);
  ASSERT_EQ(fires.size(), 100U);
  std::set<Address> sites;
  for (int i = 0; i < 100; ++i) {
    const SeenFire& fire = fires[static_cast<std::size_t>(i)];
    sites.insert(fire.site);
    EXPECT_EQ(fire.pid, child.pid());
    EXPECT_EQ(fire.tid, child.pid());
    EXPECT_EQ(fire.probe, "subject:shot");
    EXPECT_EQ(fire.names, (std::vector<std::string>{"number", "text", "ratio"}));
    ASSERT_EQ(fire.values.size(), 3U);
    EXPECT_EQ(fire.values[0], Value(std::int64_t{i}));
    EXPECT_EQ(fire.values[1], Value(StringValue{"shot " + std::to_string(i), false}));
    EXPECT_EQ(fire.values[2], Value(i * 0.5));
  }
  EXPECT_GE(sites.size(), 2U);
  EXPECT_TRUE(collect_rest(*trace).empty());
  EXPECT_EQ(trace->counters().lost, 0U);
}

TEST(Trace, WhatTheSinkThrowsIsPassedOnAndTheRestComesLater) {
  struct Thrown {};
  Child child = start_trace_subject();
  const auto trace = open_trace(of_process(child.pid(), {"subject:shot"}));
  ASSERT_TRUE(trace);
  EXPECT_EQ(tell(child, "fire 10"), "fire");
  int seen = 0;
  const auto throw_at_first = [&] {
    for (int i = 0; i < 600 && seen == 0; ++i)
      static_cast<void>(trace->poll(std::chrono::milliseconds(100), [&](const TraceEvent&) {
        ++seen;
        throw Thrown();
      }));
  };
  EXPECT_THROW(throw_at_first(), Thrown);
  EXPECT_EQ(seen, 1);
  const auto rest = collect(*trace, 9);
  ASSERT_EQ(rest.size(), 9U);
  EXPECT_EQ(rest.front().values.at(0), Value(std::int64_t{1}));
}

TEST(Trace, SemaphoresOpenWhileItLastsAndCloseAfterwards) {
  Child child = start_trace_subject();
  EXPECT_EQ(tell(child, "state"), "state 0");
  {
    const auto trace = open_trace(of_process(child.pid(), {"subject:*"}));
    ASSERT_TRUE(trace);
    EXPECT_EQ(tell(child, "state"), "state 1");
    EXPECT_EQ(tell(child, "fire 10"), "fire");
    EXPECT_EQ(count_by_probe(collect(*trace, 20)),
              (std::map<std::string, int>{{"subject:guarded", 10}, {"subject:shot", 10}}));
  }
  EXPECT_EQ(tell(child, "state"), "state 0");
}

/// Kills a subject, and starts another that has its number.
void replace(Child& child) {
  ChildOptions options;
  options.pid = child.pid();
  child.signal(SIGKILL);
  ASSERT_TRUE(child.wait());
  child = start_trace_subject(options);
  ASSERT_EQ(child.pid(), options.pid);
}

TEST(Trace, AnotherProcessWithTheNumberOfOneThatEndedIsNotSeen) {
  Child one = start_trace_subject();
  Child other = start_trace_subject();
  TraceOptions options = of_process(one.pid(), {"subject:shot"});
  options.target.pids.push_back(other.pid());
  const auto trace = open_trace(options);
  ASSERT_TRUE(trace);
  replace(one);
  EXPECT_EQ(tell(one, "fire 10"), "fire");
  EXPECT_EQ(tell(other, "fire 10"), "fire");
  auto fires = collect(*trace, 10);
  for (SeenFire& late : collect_rest(*trace)) fires.push_back(std::move(late));
  EXPECT_EQ(fires.size(), 10U);
  for (const SeenFire& fire : fires) EXPECT_EQ(fire.pid, other.pid());
  EXPECT_FALSE(trace->ended());
}

TEST(Trace, EndsThoughAnotherProcessHasTheNumber) {
  Child child = start_trace_subject();
  const auto trace = open_trace(of_process(child.pid(), {"subject:shot"}));
  ASSERT_TRUE(trace);
  replace(child);
  EXPECT_EQ(tell(child, "fire 10"), "fire");
  EXPECT_TRUE(trace->ended());
  EXPECT_TRUE(collect_rest(*trace).empty());
}

TEST(Trace, TwoAtOnceSeeTheSame) {
  Child child = start_trace_subject();
  const auto one = open_trace(of_process(child.pid(), {"subject:*"}));
  ASSERT_TRUE(one);
  {
    const auto other = open_trace(of_process(child.pid(), {"guarded"}));
    ASSERT_TRUE(other);
    EXPECT_EQ(tell(child, "fire 10"), "fire");
    EXPECT_EQ(collect(*one, 20).size(), 20U);
    EXPECT_EQ(collect(*other, 10).size(), 10U);
  }
  EXPECT_EQ(tell(child, "fire 10"), "fire");
  EXPECT_EQ(collect(*one, 20).size(), 20U);
}

TEST(Trace, PerfEventsSeeTheSame) {
  std::vector<std::vector<SeenFire>> seen_by;
  for (const auto attaching : {bpf::Attaching::best, bpf::Attaching::perf_event}) {
    Child child = start_trace_subject();
    {
      TraceOptions options = of_process(child.pid(), {"subject:*"});
      options.attaching = attaching;
      const auto trace = open_trace(options);
      ASSERT_TRUE(trace);
      EXPECT_EQ(tell(child, "state"), "state 1");
      EXPECT_EQ(tell(child, "fire 20"), "fire");
      seen_by.push_back(collect(*trace, 40));
      EXPECT_TRUE(collect_rest(*trace).empty());
    }
    EXPECT_EQ(tell(child, "state"), "state 0");
    EXPECT_EQ(tell(child, "fire 1"), "fire");
    // Processes that start later, and what a launcher executes.
    TraceOptions launch;
    launch.attaching = attaching;
    launch.probes = {"subject:*"};
    launch.target.command = {"sh", "-c", std::string("exec ") + TRACE_SUBJECT + " 'fire 3' quit"};
    const auto trace = open_trace(launch);
    ASSERT_TRUE(trace);
    for (SeenFire& fire : collect(*trace, 7)) seen_by.back().push_back(std::move(fire));
  }
  ASSERT_EQ(seen_by[0].size(), 47U);
  ASSERT_EQ(seen_by[1].size(), 47U);
  for (std::size_t i = 0; i < seen_by[0].size(); ++i) {
    EXPECT_EQ(seen_by[0][i].probe, seen_by[1][i].probe) << i;
    EXPECT_EQ(seen_by[0][i].site, seen_by[1][i].site) << i;
    EXPECT_EQ(seen_by[0][i].names, seen_by[1][i].names) << i;
    EXPECT_EQ(seen_by[0][i].values, seen_by[1][i].values) << i;
  }
}

/// Its main thread ends.
void leave(Child& child) {
  child.write("leave\n");
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!target::has_no_main_thread(child.pid()) && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_TRUE(target::has_no_main_thread(child.pid()));
}

TEST(Trace, AProcessWhoseMainThreadHasEnded) {
  for (const auto attaching : {bpf::Attaching::best, bpf::Attaching::perf_event}) {
    Child child = start_trace_subject();
    leave(child);
    Child other = start_trace_subject();
    TraceOptions options = of_process(child.pid(), {"subject:shot"});
    options.attaching = attaching;
    const auto trace = open_trace(options);
    ASSERT_TRUE(trace);
    EXPECT_EQ(tell(other, "fire 3"), "fire");
    EXPECT_EQ(tell(child, "fire 5"), "fire");
    const auto fires = collect(*trace, 5);
    ASSERT_EQ(fires.size(), 5U);
    for (const SeenFire& fire : fires) EXPECT_EQ(fire.pid, child.pid());
    EXPECT_TRUE(collect_rest(*trace).empty());
    for (const std::string& note : trace->take_notes())
      EXPECT_EQ(note.find("main thread"), note.npos) << note;
  }
}

TEST(Trace, GoesOnWhenTheMainThreadEnds) {
  for (const auto attaching : {bpf::Attaching::best, bpf::Attaching::perf_event}) {
    Child child = start_trace_subject();
    TraceOptions options = of_process(child.pid(), {"subject:shot"});
    options.attaching = attaching;
    const auto trace = open_trace(options);
    ASSERT_TRUE(trace);
    EXPECT_EQ(tell(child, "fire 2"), "fire");
    EXPECT_EQ(collect(*trace, 2).size(), 2U);
    leave(child);
    bool is_noted = false;
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!is_noted && std::chrono::steady_clock::now() < end) {
      EXPECT_TRUE(trace->poll(std::chrono::milliseconds(10), [](const TraceEvent&) {}));
      for (const std::string& note : trace->take_notes())
        is_noted |= note.find("main thread") != std::string::npos;
    }
    EXPECT_TRUE(is_noted);
    EXPECT_EQ(tell(child, "fire 5"), "fire");
    EXPECT_EQ(collect(*trace, 5).size(), 5U);
    EXPECT_TRUE(collect_rest(*trace).empty());
  }
}

TEST(Trace, GoesOnWhenAnotherThreadThanTheMainOneExecutesAProgram) {
  for (const auto attaching : {bpf::Attaching::best, bpf::Attaching::perf_event}) {
    Child child = start_trace_subject();
    TraceOptions options = of_process(child.pid(), {"subject:shot"});
    options.attaching = attaching;
    const auto trace = open_trace(options);
    ASSERT_TRUE(trace);
    trace->take_notes();
    for (int round = 0; round < 2; ++round) {
      child.write("thread exec state\n");
      EXPECT_EQ(child.read_line(), "ready " + std::to_string(child.pid()));
      EXPECT_EQ(child.read_line(), "state 0");
      // Until the trace has attached to the program: its fires.
      std::size_t fires = 0;
      const auto end = std::chrono::steady_clock::now() + patience;
      while (fires == 0 && std::chrono::steady_clock::now() < end) {
        EXPECT_EQ(tell(child, "fire 1"), "fire");
        fires = collect_rest(*trace).size();
      }
      ASSERT_NE(fires, 0U);
      EXPECT_EQ(tell(child, "fire 5"), "fire");
      EXPECT_EQ(collect(*trace, 5).size(), 5U);
    }
    std::string notes;
    for (const std::string& note : trace->take_notes()) notes += note + '\n';
    EXPECT_NE(notes.find("another thread of process"), notes.npos) << notes;
  }
}

TEST(Trace, GoesOnWhenTheMainThreadEndsOfTheLastOfSeveralProcesses) {
  Child child = start_trace_subject();
  std::optional<Child> other = start_trace_subject();
  TraceOptions options = of_process(child.pid(), {"subject:shot", "plugin:*"});
  options.target.pids.push_back(other->pid());
  options.optional = true;
  const auto trace = open_trace(options);
  ASSERT_TRUE(trace);
  trace->take_notes();
  other.reset();
  EXPECT_FALSE(trace->ended());
  EXPECT_EQ(tell(child, std::string("open ") + TRACE_PLUGIN), "open well");
  const auto end = std::chrono::steady_clock::now() + patience;
  while (trace->take_notes().empty() && std::chrono::steady_clock::now() < end)
    collect_rest(*trace);
  leave(child);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  collect_rest(*trace);
  EXPECT_EQ(tell(child, "fire 5"), "fire");
  EXPECT_EQ(count_by_probe(collect(*trace, 5))["subject:shot"], 5);
}

TEST(Trace, AFileInEveryProcessThatRunsItNowOrLater) {
  Child before = start_trace_subject();
  TraceOptions options;
  options.target.files = {TRACE_SUBJECT};
  options.probes = {"subject:*"};
  const auto trace = open_trace(options);
  ASSERT_TRUE(trace);
  EXPECT_EQ(tell(before, "fire 5"), "fire");
  Child after = start_trace_subject();
  EXPECT_EQ(tell(after, "fire 7"), "fire");
  const auto fires = collect(*trace, 2 * 5 + 1 + 2 * 7);
  std::map<pid_t, int> by_pid;
  for (const SeenFire& fire : fires) ++by_pid[fire.pid];
  EXPECT_EQ(by_pid, (std::map<pid_t, int>{{before.pid(), 10}, {after.pid(), 15}}));
  EXPECT_FALSE(trace->ended());
}

TEST(Trace, ACommandFromItsFirstInstruction) {
  TraceOptions options;
  options.target.command = {TRACE_SUBJECT, "fire 3", "quit"};
  options.probes = {"subject:*"};
  const auto trace = open_trace(options);
  ASSERT_TRUE(trace);
  const auto fires = collect(*trace, 7);
  ASSERT_EQ(fires.size(), 7U);
  EXPECT_EQ(fires[0].probe, "subject:begin");
  EXPECT_EQ(count_by_probe(fires),
            (std::map<std::string, int>{
                {"subject:begin", 1}, {"subject:guarded", 3}, {"subject:shot", 3}}));
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!trace->ended() && std::chrono::steady_clock::now() < end) collect_rest(*trace);
  EXPECT_TRUE(trace->ended());
}

TEST(Trace, WhatALauncherExecutesFromItsFirstInstruction) {
  const std::string subject = TRACE_SUBJECT;
  // A signal, job control and another launcher come in between.
  for (const std::string& script :
       {"exec " + subject + " 'fire 3' quit",
        "exec sh -c \"trap : USR1; kill -USR1 \\$\\$; exec " + subject + " 'fire 3' quit\"",
        "(sleep 0.2; kill -CONT $$) & kill -STOP $$; exec " + subject + " 'fire 3' quit"}) {
    TraceOptions options;
    options.target.command = {"sh", "-c", script};
    options.probes = {"subject:*"};
    const auto trace = open_trace(options);
    ASSERT_TRUE(trace);
    const auto fires = collect(*trace, 7);
    ASSERT_EQ(fires.size(), 7U) << script;
    EXPECT_EQ(fires[0].probe, "subject:begin") << script;
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!trace->ended() && std::chrono::steady_clock::now() < end) collect_rest(*trace);
    EXPECT_TRUE(trace->ended()) << script;
  }
}

TEST(Trace, ALauncherThatLaunchesNothingEndsAsUsual) {
  TraceOptions options;
  options.target.command = {"sh", "-c", "kill -TERM $$"};
  options.probes = {"subject:*"};
  const auto trace = open_trace(options);
  ASSERT_TRUE(trace);
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!trace->ended() && std::chrono::steady_clock::now() < end) collect_rest(*trace);
  EXPECT_TRUE(trace->ended());
}

TEST(Trace, ALauncherThatStillRunsIsAskedToEndWithTheTrace) {
  const auto begun = std::chrono::steady_clock::now();
  {
    TraceOptions options;
    options.target.command = {"sleep", "1000"};
    options.probes = {"subject:*"};
    ASSERT_TRUE(open_trace(options));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(500));
}

TEST(Trace, ALauncherMissesNoFiresOfWhatItExecutes) {
  for (int round = 0; round < 15; ++round) {
    TraceOptions options;
    options.target.command = {"sh", "-c", std::string("exec ") + TRACE_SUBJECT + " 'fire 3' quit"};
    options.probes = {"subject:shot"};
    const auto trace = open_trace(options);
    ASSERT_TRUE(trace);
    EXPECT_EQ(collect(*trace, 3).size(), 3U);
    for (const std::string& note : trace->take_notes())
      EXPECT_EQ(note.find("fires were missed"), note.npos) << note;
  }
}

/// Our child that runs this program, once its first thread has ended; 0: not yet.
pid_t child_without_first_thread(const std::string& program) {
  std::ifstream children("/proc/thread-self/children");
  for (pid_t pid = 0; children >> pid;) {
    std::string stat;
    std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/stat"), stat);
    if (stat.find('(' + program + ") Z ") != std::string::npos) return pid;
  }
  return 0;
}

TEST(Trace, ALauncherWhoseFirstThreadHasEndedIsAskedToEndWithTheTrace) {
  pid_t pid = 0;
  {
    TraceOptions options;
    options.target.command = {TRACE_SUBJECT, "leave"};
    options.probes = {"nosuch:*"};
    const auto trace = open_trace(options);
    ASSERT_TRUE(trace);
    const auto end = std::chrono::steady_clock::now() + patience;
    while (pid == 0 && std::chrono::steady_clock::now() < end) {
      collect_rest(*trace);
      pid = child_without_first_thread("trace_subject");
    }
    ASSERT_NE(pid, 0);
  }
  EXPECT_EQ(::kill(pid, 0), -1);
}

TEST(Trace, LibrariesThatACommandStartsWithBeforeTheirConstructors) {
  TraceOptions options;
  options.probes = {"plugin:*", "subject:*"};
  options.target.command = {TRACE_PRELOADED, "quit"};
  const auto trace = open_trace(options);
  ASSERT_TRUE(trace);
  const auto fires = collect(*trace, 2);
  ASSERT_EQ(fires.size(), 2U);
  EXPECT_EQ(fires[0].probe, "plugin:loaded");
  EXPECT_EQ(fires[1].probe, "subject:begin");
}

TEST(Trace, LibrariesThatAreLoadedLater) {
  Child child = start_trace_subject();
  TraceOptions options = of_process(child.pid(), {"subject:shot", "plugin:called"});
  options.optional = true;
  const auto trace = open_trace(options);
  ASSERT_TRUE(trace);
  EXPECT_EQ(tell(child, std::string("open ") + TRACE_PLUGIN), "open well");
  // It takes a moment until it is noticed.
  std::size_t seen_calls = 0;
  const auto end = std::chrono::steady_clock::now() + patience;
  while (seen_calls == 0 && std::chrono::steady_clock::now() < end) {
    collect_rest(*trace);
    EXPECT_EQ(tell(child, "again 1"), "again");
    seen_calls = collect_rest(*trace).size();
  }
  EXPECT_EQ(tell(child, "again 50"), "again");
  const auto fires = collect(*trace, 50);
  for (const SeenFire& fire : fires) EXPECT_EQ(fire.probe, "plugin:called");
  EXPECT_EQ(fires.back().values.at(0), Value(std::int64_t{49}));
}

TEST(Trace, ForksAreFollowedIfAsked) {
  Child child = start_trace_subject();
  {
    const auto alone = open_trace(of_process(child.pid(), {"subject:shot"}));
    ASSERT_TRUE(alone);
    EXPECT_EQ(tell(child, "fork 5").rfind("fork ", 0), 0U);
    EXPECT_TRUE(collect_rest(*alone).empty());
  }
  TraceOptions options = of_process(child.pid(), {"subject:shot"});
  options.follow = true;
  const auto trace = open_trace(options);
  ASSERT_TRUE(trace);
  Child stranger = start_trace_subject();
  EXPECT_EQ(tell(stranger, "fire 5"), "fire");
  const std::string answer = tell(child, "fork 5");
  const auto fires = collect(*trace, 5);
  EXPECT_TRUE(collect_rest(*trace).empty());
  for (const SeenFire& fire : fires)
    EXPECT_EQ(answer, "fork " + std::to_string(fire.pid) + " 0") << "unharmed, and no other";
}

TEST(Trace, WhatAChildExecutesIsFollowed) {
  Child child = start_trace_subject();
  TraceOptions options = of_process(child.pid(), {"subject:*"});
  options.follow = true;
  const auto trace = open_trace(options);
  ASSERT_TRUE(trace);
  child.write("run fire 5\n");
  const auto fires = collect(*trace, 11);
  EXPECT_EQ(count_by_probe(fires),
            (std::map<std::string, int>{
                {"subject:begin", 1}, {"subject:guarded", 5}, {"subject:shot", 5}}));
}

TEST(Trace, GoesOnWhenTheProcessExecutesAnotherProgram) {
  Child child = start_trace_subject();
  const auto trace = open_trace(of_process(child.pid(), {"subject:shot"}));
  ASSERT_TRUE(trace);
  child.write("exec fire 5\n");
  EXPECT_EQ(collect(*trace, 5).size(), 5U);
  EXPECT_FALSE(trace->ended());
}

TEST(Trace, GoesOnWhenTheProcessExecutesADifferentProgramOfTheSameProvider) {
  Child child = start_trace_subject();
  const auto trace = open_trace(of_process(child.pid(), {"subject:shot"}));
  ASSERT_TRUE(trace);
  EXPECT_EQ(tell(child, std::string("become ") + TRACE_PRELOADED),
            "ready " + std::to_string(child.pid()));
  // It takes a moment until it is noticed.
  std::size_t seen_fires = 0;
  const auto end = std::chrono::steady_clock::now() + patience;
  while (seen_fires == 0 && std::chrono::steady_clock::now() < end) {
    collect_rest(*trace);
    EXPECT_EQ(tell(child, "fire 1"), "fire");
    seen_fires = collect_rest(*trace).size();
  }
  EXPECT_EQ(tell(child, "fire 5"), "fire");
  const auto fires = collect(*trace, 5);
  for (const SeenFire& fire : fires) EXPECT_EQ(fire.module, TRACE_PRELOADED);
}

TEST(Trace, EndsWithItsProcess) {
  Child child = start_trace_subject();
  const auto trace = open_trace(of_process(child.pid(), {"subject:shot"}));
  ASSERT_TRUE(trace);
  EXPECT_EQ(tell(child, "fire 3"), "fire");
  child.write("crash\n");
  EXPECT_EQ(child.wait(), 128 + SIGABRT);
  EXPECT_TRUE(trace->ended());
  EXPECT_EQ(collect(*trace, 3).size(), 3U) << "what fired before is not lost";
}

TEST(Trace, ConditionsAreTestedWhereverTheyCanBe) {
  Child child = start_trace_subject();
  for (const char* condition :
       {"number >= 7", "text == \"shot 7\" || arg0 > 7", "ratio >= 3.5", "!(number < 7)"}) {
    TraceOptions options = of_process(child.pid(), {"subject:shot"});
    auto where = query::Expression::parse(condition);
    ASSERT_TRUE(where) << where.error().message;
    options.query.where = *where;
    const auto trace = open_trace(options);
    ASSERT_TRUE(trace);
    EXPECT_EQ(tell(child, "fire 10"), "fire");
    const auto fires = collect(*trace, 3);
    ASSERT_EQ(fires.size(), 3U) << condition;
    EXPECT_EQ(fires[0].values[0], Value(std::int64_t{7})) << condition;
    EXPECT_TRUE(collect_rest(*trace).empty()) << condition;
  }
}

TEST(Trace, ShowsWhatIsAskedFor) {
  Child child = start_trace_subject();
  TraceOptions options = of_process(child.pid(), {"subject:shot"});
  options.query.show = *query::parse_items("hex(number) as n, str(arg1), comm, arg9");
  options.optional = true;
  const auto trace = open_trace(options);
  ASSERT_TRUE(trace);
  EXPECT_EQ(tell(child, "fire 1"), "fire");
  const auto fires = collect(*trace, 1);
  ASSERT_EQ(fires.size(), 1U);
  EXPECT_EQ(fires[0].names, (std::vector<std::string>{"n", "str(arg1)", "comm", "arg9"}));
  EXPECT_EQ(fires[0].values[1], Value(StringValue{"shot 0", false}));
  EXPECT_EQ(fires[0].values[2], Value(StringValue{"trace_subject", false}));
}

TEST(Trace, StringsAreBounded) {
  Child child = start_trace_subject();
  TraceOptions options = of_process(child.pid(), {"subject:shot"});
  options.query.string_bytes = 4;
  const auto trace = open_trace(options);
  ASSERT_TRUE(trace);
  EXPECT_EQ(tell(child, "fire 1"), "fire");
  const auto fires = collect(*trace, 1);
  ASSERT_EQ(fires.size(), 1U);
  EXPECT_EQ(fires[0].values[1], Value(StringValue{"shot", true}));
}

TEST(Trace, SaysThatALibraryCameWhileItRan) {
  Child child = start_trace_subject();
  TraceOptions options = of_process(child.pid(), {"subject:shot", "plugin:*"});
  options.optional = true;
  const auto trace = open_trace(options);
  ASSERT_TRUE(trace);
  EXPECT_THAT(trace->take_notes(),
              testing::ElementsAre(testing::HasSubstr("has no probe plugin:*")));
  EXPECT_EQ(tell(child, std::string("open ") + TRACE_PLUGIN), "open well");
  std::vector<std::string> notes;
  const auto end = std::chrono::steady_clock::now() + patience;
  while (notes.empty() && std::chrono::steady_clock::now() < end) {
    collect_rest(*trace);
    notes = trace->take_notes();
  }
  EXPECT_THAT(notes, testing::ElementsAre(
                         testing::AllOf(testing::HasSubstr(TRACE_PLUGIN),
                                        testing::HasSubstr("was loaded during the trace"))));
}

TEST(Trace, AFileSeesItsConstructorsWhoeverLoadsIt) {
  Child child = start_trace_subject();
  TraceOptions options;
  options.target.files = {TRACE_PLUGIN};
  options.probes = {"plugin:*"};
  const auto trace = open_trace(options);
  ASSERT_TRUE(trace);
  EXPECT_EQ(tell(child, std::string("open ") + TRACE_PLUGIN), "open well");
  const auto fires = collect(*trace, 2);
  ASSERT_EQ(fires.size(), 2U);
  EXPECT_EQ(fires[0].probe, "plugin:loaded");
  EXPECT_EQ(fires[1].probe, "plugin:called");
}

TEST(Trace, LabelsWithKeysTooLongForTheKernel) {
  const std::string key(70, 'k');
  Child child = start_trace_subject();
  TraceOptions options = of_process(child.pid(), {"subject:shot"});
  query::ReductionQuery count;
  count.by = *query::parse_items("label." + key + ", label.shot");
  options.query.reduction = count;
  const auto counts = open_trace(options);
  ASSERT_TRUE(counts);
  options.query.reduction.reset();
  options.query.where = *query::Expression::parse("label.shot == 'shot 1' and not label." + key);
  const auto trace = open_trace(options);
  ASSERT_TRUE(trace);
  EXPECT_EQ(tell(child, "fire 3"), "fire");
  EXPECT_EQ(collect(*trace, 1).size(), 1U);
  EXPECT_TRUE(collect_rest(*trace).empty());
  collect_rest(*counts);
  const auto table = counts->reduction();
  ASSERT_TRUE(table);
  EXPECT_EQ(table->rows.size(), 3U);
  for (const query::ReductionRow& row : table->rows) {
    EXPECT_FALSE(row.keys.at(0));
    EXPECT_TRUE(row.keys.at(1));
  }
}

TEST(Trace, ADeletedExecutable) {
  const auto copy = std::filesystem::temp_directory_path() / "vitrine_trace_deleted";
  std::filesystem::copy_file(TRACE_SUBJECT, copy,
                             std::filesystem::copy_options::overwrite_existing);
  Child child = start_trace_subject({}, copy);
  std::filesystem::remove(copy);
  const auto trace = open_trace(of_process(child.pid(), {"subject:shot"}));
  ASSERT_TRUE(trace);
  EXPECT_EQ(tell(child, "fire 3"), "fire");
  EXPECT_EQ(collect(*trace, 3).size(), 3U);
}

TEST(Trace, SaysWhatThereIsInstead) {
  Child child = start_trace_subject();
  const auto trace = Trace::open(of_process(child.pid(), {"subject:shoot"}));
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().code, ErrorCode::failed);
  EXPECT_THAT(trace.error().message, testing::HasSubstr("has no probe subject:shoot"));
  EXPECT_THAT(trace.error().message, testing::HasSubstr("subject:shot"));
  EXPECT_THAT(trace.error().remedy, testing::HasSubstr("vitrine probes"));

  const auto nobody = Trace::open(of_process(0x3ffffffe, {"*"}));
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, ErrorCode::not_found);
  TraceOptions no_file;
  no_file.target.files = {"/no/such/file"};
  no_file.probes = {"*"};
  EXPECT_EQ(Trace::open(no_file).error().code, ErrorCode::not_found);
  EXPECT_EQ(Trace::open({}).error().code, ErrorCode::usage);
}

}  // namespace
}  // namespace vitrine::test
