// How a trace ends, what it leaves behind, and which rights it needs.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "cli/trace_command.hpp"

namespace vitrine::test {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using testing::HasSubstr;

TEST(TraceCommand, EndsWhenAskedTo) {
  Child child = start_subject();
  for (const int number : {SIGINT, SIGTERM}) {
    Child tracer = start_trace({pid_of(child), "subject:*"});
    EXPECT_EQ(tell(child, "state"), "state 1");
    tracer.signal(number);
    EXPECT_EQ(tracer.wait(), 130);
    EXPECT_EQ(tell(child, "state"), "state 0");
  }
  EXPECT_EQ(vitrine({"trace", pid_of(child), "subject:*", "--duration", "200ms"}).status, 0);
}

/// The code of all sites of the process as it is in memory now.
class Code {
 public:
  explicit Code(const Child& child) : pid_(pid_of(child)) {
    const Outcome listed = vitrine({"probes", "--json", pid_, "subject:*"});
    std::istringstream lines(listed.out);
    for (std::string line; std::getline(lines, line);) {
      const json probe = json::parse(line);
      for (const json& site : probe["sites"])
        sites_.push_back(std::stoull(site["runtime_address"].get<std::string>(), nullptr, 16));
    }
    EXPECT_GE(sites_.size(), 4U);
  }

  std::vector<unsigned> now() const {
    std::vector<unsigned> bytes;
    const int memory = ::open(("/proc/" + pid_ + "/mem").c_str(), O_RDONLY);
    for (const std::uint64_t site : sites_) {
      unsigned char byte = 0;
      EXPECT_EQ(::pread(memory, &byte, 1, static_cast<off_t>(site)), 1);
      bytes.push_back(byte);
    }
    ::close(memory);
    return bytes;
  }

 private:
  std::string pid_;
  std::vector<std::uint64_t> sites_;
};

TEST(TraceCommand, LeavesNothingBehindWhereverItIsKilled) {
  Child child = start_subject();
  const Code code(child);
  const auto clean = code.now();
  for (const unsigned byte : clean) EXPECT_EQ(byte, 0x90U);
  // How long attaching takes differs tenfold between builds and loads: the moments are spread over
  // twice what it takes here and now, and over more when that was not enough.
  const auto begin = std::chrono::steady_clock::now();
  {
    Child tracer = start_trace({pid_of(child), "subject:*", "--json"});
    tracer.signal(SIGKILL);
    EXPECT_EQ(tracer.wait(), 128 + SIGKILL);
  }
  auto window = std::chrono::duration_cast<std::chrono::microseconds>(
      2 * (std::chrono::steady_clock::now() - begin));
  std::minstd_rand random(20261121);
  int attached = 0;
  for (int round = 0; round < 100; ++round) {
    Child tracer = Child::spawn({VITRINE, "trace", pid_of(child), "subject:*", "--json"});
    const auto moment = window * (random() % 1000) / 1000;
    const auto end = std::chrono::steady_clock::now() + moment;
    while (std::chrono::steady_clock::now() < end) EXPECT_EQ(tell(child, "fire 5"), "fire");
    const bool is_attached = code.now() != clean;
    attached += is_attached ? 1 : 0;
    if (!is_attached && attached * 4 < round) window += window / 16;
    tracer.signal(SIGKILL);
    EXPECT_EQ(tracer.wait(), 128 + SIGKILL);
    // The kernel takes uprobes away a moment after the last descriptor is gone.
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while ((code.now() != clean || tell(child, "state") != "state 0") &&
           std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(milliseconds(5));
    ASSERT_EQ(code.now(), clean) << "round " << round;
    ASSERT_EQ(tell(child, "state"), "state 0") << "round " << round;
  }
  std::cout << "trace: killed at 100 points, " << attached
            << " of them attached; semaphore 0 and no uprobe after each\n";
  EXPECT_GT(attached, 10) << "killed too early to mean anything";
  EXPECT_LT(attached, 100) << "killed too late to mean everything";
  Child tracer = start_trace({pid_of(child), "shot", "--limit", "3"});
  EXPECT_EQ(tell(child, "fire 3"), "fire");
  EXPECT_EQ(tracer.wait(), 0);
}

TEST(TraceCommand, OneOfTwoIsKilledAndTheOtherGoesOn) {
  Child child = start_subject();
  Child one = start_trace({pid_of(child), "subject:guarded", "--json", "--limit", "20"});
  Child other = start_trace({pid_of(child), "subject:guarded", "--json"});
  EXPECT_EQ(tell(child, "state"), "state 1");  // counted once a place, not once a tracer
  EXPECT_EQ(tell(child, "fire 10"), "fire");
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(json::parse(one.read_line(patience).value_or("null"))["args"], json({i}));
  other.signal(SIGKILL);
  EXPECT_EQ(other.wait(), 128 + SIGKILL);
  const auto comes_to = [&](const std::string& state) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (tell(child, "state") != state && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(milliseconds(5));
    return tell(child, "state");
  };
  EXPECT_EQ(comes_to("state 1"), "state 1");
  EXPECT_EQ(tell(child, "fire 10"), "fire");
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(json::parse(one.read_line(patience).value_or("null"))["args"], json({i}));
  EXPECT_EQ(one.wait(), 0);
  EXPECT_EQ(comes_to("state 0"), "state 0");
}

TEST(TraceCommand, ALauncherOutlivesATracerThatIsKilled) {
  Child tracer = Child::spawn({"sh", "-c", "exec \"$@\" 2>&1", "sh", VITRINE, "trace", "subject:*",
                               "--exec", "--", "sh", "-c", "read line; echo \"got $line\""});
  EXPECT_THAT(tracer.read_line(patience).value_or(""), HasSubstr("sh has no probes"));
  tracer.signal(SIGKILL);
  EXPECT_EQ(tracer.wait(), 128 + SIGKILL);
  tracer.write("on\n");
  EXPECT_EQ(tracer.read_line(patience).value_or("nothing"), "got on");
}

/// Attached as user nobody, with just these capabilities, to a process or file of root.
Child start_trace_as_nobody(const std::string& capabilities, const std::string& target) {
  Child tracer = Child::spawn({"sh", "-c", "exec \"$@\" 2>&1", "sh", "setpriv", "--reuid=65534",
                               "--regid=65534", "--clear-groups", "--inh-caps=" + capabilities,
                               "--ambient-caps=" + capabilities, "--", VITRINE, "trace", target,
                               "subject:shot", "--json", "--limit", "1"});
  return tracer;
}

TEST(TraceCommand, CapabilitiesForFilesAndWithPtraceForProcesses) {
  Child child = start_subject();
  const auto event_of = [&](Child& tracer) {
    std::string line;
    do line = tracer.read_line(patience).value_or("null");
    while (line.rfind("vitrine: note", 0) == 0);
    EXPECT_EQ(line.rfind("vitrine: tracing", 0), 0U) << line;
    EXPECT_EQ(tell(child, "fire 1"), "fire");
    std::string notes;
    do {
      if (line.rfind("vitrine: note", 0) == 0) notes += line;
      line = tracer.read_line(patience).value_or("null");
    } while (line != "null" && line.front() != '{');
    json event = json::parse(line);
    event["notes"] = notes + tracer.rest_of_output();
    return event;
  };
  Child by_file = start_trace_as_nobody("+bpf,+perfmon", TRACE_SUBJECT);
  const json of_file = event_of(by_file);
  EXPECT_EQ(of_file["args"], json({0, "shot 0", 0.0}));
  EXPECT_TRUE(of_file.contains("labels_error"));
  EXPECT_THAT(of_file["notes"].get<std::string>(), HasSubstr("CAP_SYS_PTRACE"));

  Child refused = start_trace_as_nobody("+bpf,+perfmon", pid_of(child));
  EXPECT_THAT(refused.rest_of_output(), HasSubstr("CAP_SYS_PTRACE"));
  EXPECT_EQ(refused.wait(), 3);

  Child by_process = start_trace_as_nobody("+bpf,+perfmon,+sys_ptrace", pid_of(child));
  const json of_process = event_of(by_process);
  EXPECT_EQ(of_process["args"], json({0, "shot 0", 0.0}));
  EXPECT_FALSE(of_process.contains("labels_error")) << of_process;
  EXPECT_EQ(of_process["labels"], json::array({{{"key", "shot"}, {"value", "shot 0"}}}));

  Child without = start_trace_as_nobody("-all", pid_of(child));
  EXPECT_THAT(without.rest_of_output(), HasSubstr("CAP_BPF and CAP_PERFMON"));
  EXPECT_EQ(without.wait(), 3);
}

TEST(TraceCommand, AProgramThatOnlyItsContainerSees) {
  Child child =
      Child::spawn({"unshare", "-m", "-p", "-f", "--kill-child", "--mount-proc", "sh", "-c",
                    "mount -t tmpfs none /mnt && cp \"$0\" /mnt/inside && "
                    "exec /mnt/inside",
                    TRACE_SUBJECT});
  ASSERT_EQ(child.read_line(patience).value_or("nothing"), "ready 1");
  ASSERT_NE(::access("/mnt/inside", F_OK), 0);
  const std::string parent = pid_of(child);
  std::ifstream children("/proc/" + parent + "/task/" + parent + "/children");
  std::string pid;
  ASSERT_TRUE(children >> pid);
  const Outcome listed = vitrine({"probes", pid, "subject:*"});
  EXPECT_EQ(listed.status, 0) << listed.err;
  EXPECT_THAT(listed.out, HasSubstr("subject:shot"));
  Child tracer = start_trace({pid, "subject:shot", "--json", "--limit", "1"});
  EXPECT_EQ(tell(child, "fire 1"), "fire");
  const json event = json::parse(tracer.read_line(patience).value_or("null"));
  EXPECT_EQ(event["pid"], std::stoi(pid));
  EXPECT_EQ(event["module"], "/mnt/inside");
  EXPECT_EQ(event["args"], json({0, "shot 0", 0.0}));
  EXPECT_EQ(tracer.wait(), 0);
}

}  // namespace
}  // namespace vitrine::test
