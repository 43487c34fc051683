// Probes of a DOF as a user meets them: probes, ps, trace.
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command.hpp"
#include "observe/dof_subject.hpp"

namespace vitrine::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using usdt::EnabledProtocol;

std::vector<json> objects(const std::string& lines) {
  std::vector<json> found;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) found.push_back(json::parse(line));
  return found;
}

TEST(DofCommand, ProbesListsThemWithQuestionsAndInstances) {
  const DofProgram program(EnabledProtocol::return_value);
  const Outcome of_file = vitrine({"probes", "--json", program.path()});
  EXPECT_EQ(of_file.status, 0) << of_file.err;
  EXPECT_EQ(of_file.err, "");
  const auto probes = objects(of_file.out);
  ASSERT_EQ(probes.size(), 4U);
  for (const json& probe : probes) {
    EXPECT_EQ(probe["kind"], "dof");
    EXPECT_EQ(probe["provider"], "shop");
    EXPECT_FALSE(probe.contains("instance"));
  }
  EXPECT_EQ(probes[0]["name"], "checked");
  EXPECT_EQ(probes[0]["enabled_sites"][0]["protocol"], "operand");
  EXPECT_EQ(probes[1]["name"], "mapped");
  EXPECT_EQ(probes[1]["sites"][0]["types"], json({"string", "int"}));
  EXPECT_EQ(probes[1]["sites"][0]["args"], json({"8@%rsi", "-4@%edi"}));

  Child child = start(program);
  const std::string pid = std::to_string(child.pid());
  const Outcome of_process = vitrine({"probes", "--json", pid, "shop" + pid + ":checked"});
  const auto live = objects(of_process.out);
  ASSERT_EQ(live.size(), 1U) << of_process.err;
  EXPECT_EQ(live[0]["instance"], "shop" + pid);
  EXPECT_TRUE(live[0]["sites"][0].contains("runtime_address"));
  EXPECT_TRUE(live[0]["enabled_sites"][0].contains("runtime_address"));
  EXPECT_EQ(vitrine({"probes", pid, "shop1:checked"}).status, 1);
  const Outcome human = vitrine({"probes", "--sites", pid});
  EXPECT_THAT(human.out, HasSubstr("is-enabled"));
  EXPECT_THAT(human.out, HasSubstr("string, int"));
}

TEST(DofCommand, PsCountsAndTraceShowsLabels) {
  const DofProgram program(EnabledProtocol::semaphore,
                           "-O2 -DWITH_LABELS -I" INCLUDE_DIR " " LABELS_LIBRARY
                           " -Wl,-rpath," LABELS_DIR);
  Child child = start(program);
  const std::string pid = std::to_string(child.pid());
  bool listed = false;
  for (const json& process : objects(vitrine({"ps", "--json"}).out))
    if (process["pid"] == child.pid()) {
      listed = true;
      // Those of its libraries, too.
      const auto probes = objects(vitrine({"probes", "--json", pid}).out);
      EXPECT_EQ(process["probes"], probes.size());
      EXPECT_EQ(std::count_if(probes.begin(), probes.end(),
                              [](const json& probe) { return probe["kind"] == "dof"; }),
                4);
    }
  EXPECT_TRUE(listed);
  Child tracer = start_trace({pid, "shop:mapped", "--json", "--limit", "2"});
  EXPECT_EQ(tell(child, "fire 2"), "fire");
  for (int i = 0; i < 2; ++i) {
    const json event = json::parse(tracer.read_line(patience).value_or("null"));
    EXPECT_EQ(event["probe"], "shop:mapped");
    EXPECT_EQ(event["args"], json({"item " + std::to_string(i), i}));
    EXPECT_EQ(event["labels"], json::parse(R"([{"key":"tenant","value":"acme"}])"));
  }
  EXPECT_EQ(tracer.wait(), 0);
}

TEST(DofCommand, TraceFromTheFirstInstructionAndInSums) {
  const DofProgram program(EnabledProtocol::semaphore);
  const Outcome launched = run({"sh", "-c",
                                std::string(VITRINE) + " trace shop:sold --json --exec -- " +
                                    program.path() + " 7 </dev/null"});
  std::vector<json> events;
  std::istringstream in(launched.out);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with('{')) events.push_back(json::parse(line));
  ASSERT_EQ(events.size(), 1U) << launched.err;
  EXPECT_EQ(events[0]["args"][0], 7);
  EXPECT_EQ(events[0]["args"][7], program.path().substr(1));

  Child child = start(program);
  Child tracer = start_trace(
      {program.path(), "shop:*", "--count", "--by", "probe", "--json", "--duration", "3s"});
  EXPECT_EQ(tell(child, "fire 25"), "fire");
  const std::string rest = tracer.rest_of_output();
  for (const char* name : {"plain", "sold", "mapped", "checked"})
    EXPECT_THAT(rest, HasSubstr(std::string("shop:") + name));
  EXPECT_THAT(rest, HasSubstr("25"));
}

}  // namespace
}  // namespace vitrine::test
