// A machine with many more busy threads than CPUs: --duration holds, and labels are read.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <vector>

#include "support/child.hpp"

namespace vitrine {
namespace {

using namespace std::chrono_literals;

TEST(Crowd, IsProfiledInTheTimeThatWasGiven) {
  constexpr int processes = 300;
  constexpr double seconds = 15;
  std::vector<test::Child> crowd;
  std::set<pid_t> pids;
  for (int n = 0; n < processes; ++n) {
    crowd.push_back(test::Child::spawn({TENANT_LOAD, "1"}));
    pids.insert(crowd.back().pid());
  }
  std::this_thread::sleep_for(5s);  // most have begun by then

  const auto path = std::filesystem::path(testing::TempDir()) / "crowd.ndjson";
  auto vitrine = test::Child::spawn({VITRINE, "profile", "--all", "--duration", "15s", "-o", path},
                                    {.env = {}, .capture_stderr = false});
  std::this_thread::sleep_for(10s);
  EXPECT_EQ(::getpriority(PRIO_PROCESS, static_cast<id_t>(vitrine.pid())), -20);
  ASSERT_EQ(vitrine.wait(120s), 0);
  crowd.clear();

  std::size_t samples = 0, labelled = 0;
  nlohmann::json object;
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) {
    object = nlohmann::json::parse(line);
    if (object.contains("summary") || !pids.contains(object["pid"].get<pid_t>())) continue;
    ++samples;
    labelled += !object["labels"].empty();
  }
  ASSERT_TRUE(object.contains("summary"));
  const auto sampled = std::stod(object["summary"]["duration_ns"].get<std::string>()) / 1e9;
  fmt::print("{} of {} samples have labels, sampled for {:.2f} s\n", labelled, samples, sampled);
  ASSERT_GT(samples, 100U);
  EXPECT_GE(labelled * 100, samples * 95);
  EXPECT_LE(sampled, seconds * 1.1);
}

}  // namespace
}  // namespace vitrine
