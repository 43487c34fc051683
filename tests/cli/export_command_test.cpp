// vitrine profile --export and --continuous, with a real process and a collector: what was sampled
// is what arrives.
#include <gmock/gmock.h>

#include <array>
#include <csignal>
#include <map>
#include <sstream>

#include "cli/command.hpp"
#include "export/receiver.hpp"

namespace vitrine::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Child subject() {
  Child child = Child::spawn({PROFILE_SUBJECT, "burn acme"});
  EXPECT_EQ(child.read_line(patience), "ready");
  return child;
}

std::string pid_of(const Child& child) {
  return std::to_string(child.pid());
}

/// Time (ns) on and off the CPU by tenant of requests, as protoc decodes them, which keep all rules
/// of OTLP.
json totals(const std::vector<Request>& requests) {
  std::vector<std::string> arguments{"python3", OTLP_CHECK, "--totals", "tenant"};
  for (const Request& request : requests) arguments.push_back(request.file);
  const Outcome checked = run(arguments);
  EXPECT_EQ(checked.status, 0) << checked.err;
  return json::parse(checked.out, nullptr, false);
}

/// The same of the NDJSON files in `folder`.
std::map<std::string, std::array<std::int64_t, 2>> totals_of_files(const Folder& folder) {
  std::map<std::string, std::array<std::int64_t, 2>> totals;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::ifstream lines(file.path());
    for (std::string line; std::getline(lines, line);) {
      const json sample = json::parse(line);
      if (sample.contains("summary")) continue;
      for (const json& pair : sample["labels"])
        if (pair["key"] == "tenant")
          totals[pair["value"]].at(sample["measure"] == "on_cpu" ? 0 : 1) +=
              sample["value_ns"].get<std::int64_t>();
    }
  }
  return totals;
}

/// On the CPU alone.
std::int64_t total_of_files(const Folder& folder, const std::string& tenant) {
  return totals_of_files(folder)[tenant].front();
}

std::size_t files_in(const Folder& folder) {
  std::size_t count = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder))
    count += file.path().filename() != "lock";
  return count;
}

Child profile(std::vector<std::string> arguments, std::vector<std::string> env = {}) {
  arguments.insert(arguments.begin(), {VITRINE, "profile"});
  ChildOptions options;
  options.env = std::move(env);
  return Child::spawn(std::move(arguments), options);
}

std::string unused_port() {
  const Receiver gone("python3", {"200"});
  return gone.port();
}

class ExportTo : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(, ExportTo, testing::Values("python3", "node"),
                         [](const auto& its) { return its.param; });

TEST_P(ExportTo, LabelsArrive) {
  const Child target = subject();
  Receiver collector(GetParam(), {"503", "200"});
  Child command = profile({pid_of(target), "--duration", "1s", "--export", collector.url()},
                          {"OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20s3cret"});
  EXPECT_EQ(command.wait(patience), 0);
  EXPECT_THAT(command.rest_of_errors(), HasSubstr("profiles: sent 1 request\n"));
  collector.next();
  const Request request = collector.next();
  EXPECT_EQ(request.headers["authorization"], "Bearer s3cret");
  const json by_tenant = totals({request});
  ASSERT_TRUE(by_tenant.contains("acme")) << by_tenant;
  EXPECT_GT(by_tenant["acme"][0], 0);
}

TEST(ExportOverGrpc, LabelsArrive) {
  const Child target = subject();
  Receiver collector("grpc", {"14:starting", "ok"});
  Folder folder;
  Child command = profile({pid_of(target), "--duration", "1s", "--export", collector.url(), "-o",
                           (folder / "p.ndjson").string()});
  EXPECT_EQ(command.wait(patience), 0);
  EXPECT_THAT(command.rest_of_errors(), HasSubstr("profiles: sent 1 request\n"));
  collector.next();
  EXPECT_EQ(totals({collector.next()})["acme"][0], total_of_files(folder, "acme"));
}

TEST(Continuous, EveryIntervalArrivesOnceInFilesAndAtTheCollector) {
  const Child target = subject();
  Receiver collector("node", {"200"});
  Folder folder;
  Child command = profile({pid_of(target), "--continuous", "400ms", "--export", collector.url(),
                           "-o", (folder / "p-%t.ndjson").string()});
  std::vector<Request> requests = collector.next(3);
  command.signal(SIGTERM);
  EXPECT_EQ(command.wait(patience), 0);
  const std::string said = command.rest_of_errors();
  const std::size_t sent = std::stoul(said.substr(said.find("sent ") + 5));
  ASSERT_GE(sent, 3U) << said;
  for (const Request& request : collector.next(sent - 3)) requests.push_back(request);
  EXPECT_EQ(files_in(folder), sent);
  const json by_tenant = totals(requests);
  ASSERT_TRUE(by_tenant.contains("acme")) << by_tenant;
  EXPECT_GT(by_tenant["acme"][0], 0);
  EXPECT_EQ(by_tenant["acme"][0], total_of_files(folder, "acme"));
}

TEST(Continuous, ACollectorThatIsAwayForAWhileGetsAll) {
  const Child target = subject();
  const std::string port = unused_port();
  Folder folder, spool;
  Child command =
      profile({pid_of(target), "--continuous", "200ms", "--export", "otlp+http://127.0.0.1:" + port,
               "--spool", spool.string(), "-o", (folder / "p-%t.ndjson").string()});
  wait_until([&] { return files_in(spool) >= 3; });
  Receiver collector("python3", {"--port", port, "200"});
  std::vector<Request> requests = collector.next(4);
  command.signal(SIGINT);
  EXPECT_EQ(command.wait(patience), 130);
  const std::string said = command.rest_of_errors();
  EXPECT_THAT(said, HasSubstr("retrying"));
  EXPECT_THAT(said, HasSubstr("accepts profiles again"));
  const std::size_t sent = std::stoul(said.substr(said.rfind("sent ") + 5));
  for (const Request& request : collector.next(sent - 4)) requests.push_back(request);
  EXPECT_EQ(totals(requests)["acme"][0], total_of_files(folder, "acme"));
  EXPECT_EQ(files_in(spool), 0U);
}

TEST(Continuous, WhatIsLeftAtTheEndStaysInTheSpoolForTheNext) {
  const Child target = subject();
  const std::string port = unused_port();
  Folder spool;
  Child command = profile({pid_of(target), "--continuous", "200ms", "--export",
                           "otlp+http://127.0.0.1:" + port, "--spool", spool.string()});
  wait_until([&] { return files_in(spool) >= 2; });
  command.signal(SIGTERM);
  EXPECT_EQ(command.wait(patience), 0);
  const std::size_t left = files_in(spool);
  EXPECT_THAT(command.rest_of_errors(),
              HasSubstr("sent 0 requests, " + std::to_string(left) + " kept in " + spool.string()));

  Receiver collector("python3", {"--port", port, "200"});
  Child next = profile(
      {pid_of(target), "--duration", "1s", "--export", collector.url(), "--spool", spool.string()});
  EXPECT_EQ(next.wait(patience), 0);
  EXPECT_THAT(next.rest_of_errors(),
              HasSubstr(std::to_string(left) + " requests of an earlier run"));
  EXPECT_TRUE(totals(collector.next(left + 1)).contains("acme"));
  EXPECT_EQ(files_in(spool), 0U);
}

TEST(Export, WhatIsLostWhenTheUserInterruptsIsAFailure) {
  const Child target = subject();
  for (const std::string time : {"--continuous=200ms", "--duration=60s"}) {
    Child command =
        Child::spawn({"sh", "-c", "exec \"$@\" 2>&1", "sh", VITRINE, "profile", pid_of(target),
                      time, "--freq", "999", "--export", "otlp+http://127.0.0.1:" + unused_port()});
    ASSERT_TRUE(command.read_line(patience)) << time;  // it has begun
    ::sleep(1);
    command.signal(SIGINT);
    EXPECT_EQ(command.wait(patience), 1) << time << command.rest_of_output();
  }
}

TEST(Continuous, AnEngineThatLimitsGetsEverySampleOnce) {
  // One sample of each is more than the limit, and all are less than twice that: halves fit.
  constexpr std::size_t tenants = 41;
  std::vector<std::string> threads{PROFILE_SUBJECT, "burn acme"};
  while (threads.size() < tenants + 1)
    threads.push_back("wait " + std::string(900, 'x') + std::to_string(threads.size()));
  Child target = Child::spawn(std::move(threads));
  EXPECT_EQ(target.read_line(patience), "ready");
  Receiver collector("python3", {"above:30000:429"});
  Folder folder;
  const std::string url = "pyroscope+" + collector.url().substr(5);
  Child command = profile({pid_of(target), "--on-cpu", "--off-cpu", "--duration", "500ms", "-F",
                           "99", "--export", url, "-o", (folder / "p.ndjson").string()});
  EXPECT_EQ(command.wait(patience), 0);
  const std::string said = command.rest_of_errors();
  EXPECT_THAT(said, HasSubstr("are split"));
  const std::size_t sent = std::stoul(said.substr(said.rfind("sent ") + 5));
  std::vector<Request> taken;
  while (taken.size() < sent)
    if (Request request = collector.next(); request.body.size() <= 30'000)
      taken.push_back(std::move(request));
  json by_tenant = totals(taken);
  by_tenant.erase("(none)");
  EXPECT_EQ(by_tenant, json(totals_of_files(folder)));
  EXPECT_EQ(by_tenant.size(), tenants);
  for (const Request& request : taken)
    for (const char* key : {"thread.id", "cpu.logical_number", "process.pid"})
      EXPECT_EQ(request.body.find(key), std::string::npos) << key;
}

TEST(Continuous, MemoryDoesNotGrow) {
  const Child target = subject();
  Receiver collector("python3", {"200"});
  Child command = profile(
      {pid_of(target), "--continuous", "50ms", "--freq", "999", "--export", collector.url()});
  const auto resident = [&] {
    std::ifstream status("/proc/" + std::to_string(command.pid()) + "/status");
    long kib = 0;
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("VmRSS:")) kib = std::stol(line.substr(6));
    return kib;
  };
  collector.next(30);  // libraries are loaded, files parsed, arenas made
  const long before = resident();
  ASSERT_GT(before, 0);
  collector.next(60);
  EXPECT_LT(resident(), before + 4 * 1024);
  command.signal(SIGTERM);
  EXPECT_EQ(command.wait(patience), 0);
}

TEST(ExportUsage, SaysWhatIsWrongBeforeItBegins) {
  const struct {
    std::vector<std::string> arguments;
    const char* says;
  } cases[] = {
      {{"--export", "http://host:4318"}, "invalid collector URL"},
      {{"--export", "otlp+http://h", "--export-header", "secret"}, "write it as 'Name: value'"},
      {{"--export-header", "A: b"}, "add --export"},
      {{"--spool", "/tmp/x"}, "add --export"},
      {{"--export-attributes", "tenant"}, "add --export"},
      {{"--export", "otlp+http://h", "--export-bytes", "1k"}, "--export-bytes"},
      {{"--export", "otlp+http://h", "--spool", "/no/such/folder"}, "cannot be made"},
      {{"--continuous", "10s"}, "has no output"},
      {{"--continuous", "soon", "-o", "%t.folded"}, "soon"},
      {{"--continuous", "10s", "-o", "p.pb.gz"}, "%t"},
      {{"--continuous", "10s", "--top", "tenant", "-o", "%t.folded"}, "omit --top"},
  };
  for (const auto& one : cases) {
    std::vector<std::string> arguments{"profile", std::to_string(::getpid())};
    arguments.insert(arguments.end(), one.arguments.begin(), one.arguments.end());
    const Outcome outcome = vitrine(arguments);
    EXPECT_NE(outcome.status, 0) << one.says;
    EXPECT_THAT(outcome.err, HasSubstr(one.says));
    EXPECT_THAT(outcome.err, Not(HasSubstr("secret")));
    EXPECT_THAT(outcome.out, IsEmpty());
  }
}

}  // namespace
}  // namespace vitrine::test
