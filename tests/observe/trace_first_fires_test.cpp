// Labels on the first fires of processes that begin while a trace runs.
#include <gmock/gmock.h>
#include <signal.h>

#include <map>

#include "observe/trace_subject.hpp"

namespace vitrine::test {
namespace {

using Labels = std::map<std::string, std::string>;

Labels labels_of(const SeenFire& fire) {
  Labels labels;
  for (const format::Label& label : fire.labels.labels) labels[label.key] = label.value;
  return labels;
}

/// What the subject displayed when it fired.
Labels truth_of(const SeenFire& fire) {
  if (fire.probe == "subject:begin") return {{"phase", "begin"}};
  return {{"shot", std::get<probe::StringValue>(fire.values.at(1)).text}};
}

void expect_all_labelled(const std::vector<SeenFire>& fires) {
  for (const SeenFire& fire : fires) {
    EXPECT_EQ(fire.labels_error, "") << fire.probe;
    EXPECT_EQ(labels_of(fire), truth_of(fire)) << fire.probe;
  }
}

TraceOptions of_file(std::string file) {
  TraceOptions options;
  options.target.files = {std::move(file)};
  options.probes = {"subject:begin", "subject:shot"};
  return options;
}

TEST(TraceFirstFires, OfAFile) {
  const auto trace = open_trace(of_file(TRACE_SUBJECT));
  ASSERT_TRUE(trace);
  for (int i = 0; i < 3; ++i) {
    Child child = Child::spawn({TRACE_SUBJECT, "fire 20"});
    expect_all_labelled(collect(*trace, 21));
  }
}

TEST(TraceFirstFires, OfAFileWithItsLabelsInALibrary) {
  const auto trace = open_trace(of_file(TRACE_LABELLED));
  ASSERT_TRUE(trace);
  Child first = start_trace_subject({}, TRACE_LABELLED);
  const auto begun = collect(*trace, 1);  // by which it is known where such a process has them
  if (begun.at(0).labels_error.empty()) expect_all_labelled(begun);
  for (int i = 0; i < 3; ++i) {
    Child child = Child::spawn({TRACE_LABELLED, "fire 20"});
    expect_all_labelled(collect(*trace, 21));
  }
}

TEST(TraceFirstFires, AreNeverWrongWhereLabelsAreElsewhere) {
  const auto trace = open_trace(of_file(TRACE_LABELLED));
  ASSERT_TRUE(trace);
  Child first = start_trace_subject({}, TRACE_LABELLED);
  collect(*trace, 1);
  ChildOptions moved;
  moved.env = {std::string("LD_PRELOAD=") + TRACE_PADDING};
  Child child = Child::spawn({TRACE_LABELLED, "fire 20"}, moved);
  for (const SeenFire& fire : collect(*trace, 21)) {
    if (fire.labels_error.empty())
      EXPECT_EQ(labels_of(fire), truth_of(fire));
    else
      EXPECT_EQ(labels_of(fire), Labels{});
  }
  // It is known by now.
  EXPECT_EQ(child.read_line(patience), "ready " + std::to_string(child.pid()));
  EXPECT_EQ(child.read_line(patience), "fire");
  EXPECT_EQ(tell(child, "fire 20"), "fire");
  expect_all_labelled(collect(*trace, 20));
}

TEST(TraceFirstFires, OfACommand) {
  for (const char* program : {TRACE_SUBJECT, TRACE_LABELLED})
    for (const bool launched : {false, true}) {
      TraceOptions options;
      options.probes = {"subject:begin", "subject:shot"};
      options.target.command = {program, "fire 20", "quit"};
      if (launched)
        options.target.command = {"sh", "-c", std::string("exec ") + program + " 'fire 20' quit"};
      const auto trace = open_trace(options);
      ASSERT_TRUE(trace);
      expect_all_labelled(collect(*trace, 21));
    }
}

TEST(TraceFirstFires, OfForks) {
  for (const char* program : {TRACE_SUBJECT, TRACE_LABELLED}) {
    Child child = start_trace_subject({}, program);
    TraceOptions options = of_process(child.pid(), {"subject:shot"});
    options.follow = true;
    const auto trace = open_trace(options);
    ASSERT_TRUE(trace);
    tell(child, "fork 5");
    expect_all_labelled(collect(*trace, 5));
  }
}

TEST(TraceFirstFires, OfWhatAProcessExecutes) {
  for (const char* program : {TRACE_SUBJECT, TRACE_LABELLED}) {
    Child child = start_trace_subject({}, program);
    const auto trace = open_trace(of_process(child.pid(), {"subject:begin", "subject:shot"}));
    ASSERT_TRUE(trace);
    child.write("exec fire 20\n");
    expect_all_labelled(collect(*trace, 21));
  }
}

/// A process that nobody waits for, until the test is over.
struct Daemon {
  explicit Daemon(Child& subject) {
    const std::string answer = tell(subject, "daemon 20");
    EXPECT_EQ(answer.rfind("daemon ", 0), 0U) << answer;
    pid = std::atoi(answer.substr(7).c_str());
  }
  ~Daemon() {
    if (pid > 0) ::kill(pid, SIGKILL);
  }
  Daemon(const Daemon&) = delete;
  pid_t pid = 0;
};

TEST(TraceFirstFires, OfADaemon) {
  Child child = start_trace_subject();
  const auto trace = open_trace(of_file(TRACE_SUBJECT));
  ASSERT_TRUE(trace);
  const Daemon daemon(child);
  expect_all_labelled(collect(*trace, 30));
}

TEST(TraceFirstFires, ADaemonIsFollowed) {
  Child child = start_trace_subject();
  TraceOptions options = of_process(child.pid(), {"subject:shot"});
  options.follow = true;
  const auto trace = open_trace(options);
  ASSERT_TRUE(trace);
  const Daemon daemon(child);
  // Its first fires may have come before it was noticed.
  const auto fires = collect(*trace, 10);
  expect_all_labelled(fires);
  for (const SeenFire& fire : fires) EXPECT_EQ(fire.pid, daemon.pid);
}

TEST(TraceFirstFires, AreAddedUpByLabel) {
  TraceOptions options = of_file(TRACE_SUBJECT);
  options.probes = {"subject:shot"};
  query::ReductionQuery count;
  count.by = *query::parse_items("label.shot");
  options.query.reduction = count;
  const auto trace = open_trace(options);
  ASSERT_TRUE(trace);
  Child child = Child::spawn({TRACE_SUBJECT, "fire 20"});
  EXPECT_EQ(child.read_line(patience), "ready " + std::to_string(child.pid()));
  EXPECT_EQ(child.read_line(patience), "fire");
  collect_rest(*trace);
  EXPECT_EQ(tell(child, "fire 20"), "fire");
  collect_rest(*trace);
  const auto table = trace->reduction();
  ASSERT_TRUE(table);
  ASSERT_EQ(table->rows.size(), 20U);
  for (const query::ReductionRow& row : table->rows) {
    EXPECT_TRUE(row.keys.at(0)) << "without labels";
    EXPECT_EQ(row.count, 2U);
  }
}

TEST(TraceFirstFires, AreTestedForLabels) {
  TraceOptions options = of_file(TRACE_SUBJECT);
  options.query.where = *query::Expression::parse("label.shot == 'shot 0' or label.phase == begin");
  const auto trace = open_trace(options);
  ASSERT_TRUE(trace);
  Child child = Child::spawn({TRACE_SUBJECT, "fire 20"});
  const auto fires = collect(*trace, 2);
  expect_all_labelled(fires);
  EXPECT_EQ(fires.at(0).probe, "subject:begin");
  EXPECT_TRUE(collect_rest(*trace).empty());
}

}  // namespace
}  // namespace vitrine::test
