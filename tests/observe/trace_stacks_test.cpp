// Stacks of fires: the frames and their modules, whatever the process executes, and whatever becomes of its files.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "observe/trace_subject.hpp"

namespace vitrine::test {
namespace {

TEST(Trace, Stacks) {
  Child child = start_trace_subject();
  TraceOptions options = of_process(child.pid(), {"subject:shot"});
  options.stacks = true;
  const auto trace = open_trace(options);
  ASSERT_TRUE(trace);
  EXPECT_EQ(tell(child, "fire 1"), "fire");
  const auto fires = collect(*trace, 1);
  ASSERT_EQ(fires.size(), 1U);
  EXPECT_FALSE(fires[0].stack.empty());
}

/// The innermost frame is where the probe is, whatever the process executed before or has executed
/// since.
void expect_named(const std::vector<SeenFire>& fires, const std::set<std::string>& functions) {
  for (const SeenFire& fire : fires) {
    ASSERT_FALSE(fire.stack.empty());
    EXPECT_EQ(fire.stack[0].module, fire.module);
    EXPECT_TRUE(functions.contains(fire.stack[0].function)) << fire.stack[0].function;
  }
}
const std::set<std::string> shooters{"shoot", "shoot_elsewhere"};

TEST(Trace, StacksInALibraryThatIsLoadedLater) {
  Child child = start_trace_subject();
  TraceOptions options = of_process(child.pid(), {"subject:shot", "plugin:called"});
  options.stacks = true;
  options.optional = true;
  const auto trace = open_trace(options);
  ASSERT_TRUE(trace);
  EXPECT_EQ(tell(child, std::string("open ") + TRACE_PLUGIN), "open well");
  std::vector<SeenFire> fires;
  const auto end = std::chrono::steady_clock::now() + patience;
  while (fires.empty() && std::chrono::steady_clock::now() < end) {
    EXPECT_EQ(tell(child, "again 1"), "again");
    fires = collect_rest(*trace);
  }
  EXPECT_FALSE(fires.empty());
  expect_named(fires, {"plugin_call"});
}

TEST(Trace, StacksOfForks) {
  Child child = start_trace_subject();
  TraceOptions options = of_process(child.pid(), {"subject:shot"});
  options.stacks = true;
  options.follow = true;
  const auto trace = open_trace(options);
  ASSERT_TRUE(trace);
  tell(child, "fork 5");
  expect_named(collect(*trace, 5), shooters);
}

TEST(Trace, StacksBeforeAndAfterItExecutesAnotherProgram) {
  Child child = start_trace_subject();
  TraceOptions options;
  options.target.files = {TRACE_SUBJECT, TRACE_PRELOADED};
  options.probes = {"subject:shot"};
  options.stacks = true;
  const auto trace = open_trace(options);
  ASSERT_TRUE(trace);
  EXPECT_EQ(tell(child, "fire 5"), "fire");
  expect_named(collect(*trace, 5), shooters);
  // These are taken when the process executes another program already.
  EXPECT_EQ(tell(child, "fire 5"), "fire");
  EXPECT_EQ(tell(child, std::string("become ") + TRACE_PRELOADED),
            "ready " + std::to_string(child.pid()));
  EXPECT_EQ(tell(child, "fire 5"), "fire");
  const auto fires = collect(*trace, 10);
  expect_named(fires, shooters);
  EXPECT_EQ(fires.front().module, TRACE_SUBJECT);
  EXPECT_EQ(fires.back().module, TRACE_PRELOADED);
}

// Events, frames and conditions name a file as patterns do, whatever became of it.
TEST(Trace, NamesADeletedModuleByThePathThatItHad) {
  const auto place =
      std::filesystem::temp_directory_path() / ("vitrine_deleted_" + std::to_string(::getpid()));
  std::filesystem::copy_file(TRACE_SUBJECT, place);
  Child child = start_trace_subject({}, place.string());
  std::filesystem::remove(place);
  TraceOptions options = of_process(child.pid(), {"subject:shot"});
  options.query.where = *query::Expression::parse("module == '" + place.string() + "'");
  options.stacks = true;
  const auto trace = open_trace(options);
  ASSERT_TRUE(trace);
  EXPECT_EQ(tell(child, "fire 1"), "fire");
  const auto fires = collect(*trace, 1);
  ASSERT_EQ(fires.size(), 1U);
  EXPECT_EQ(fires[0].module, place.string());
  ASSERT_FALSE(fires[0].stack.empty());
  EXPECT_EQ(fires[0].stack[0].module, place.string());
}

}  // namespace
}  // namespace vitrine::test
