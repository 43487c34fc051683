// A CPU goes offline and comes back, as all but one do for a suspend: what was opened for it must be opened again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <set>
#include <thread>

#include "bpf/own_profiler.hpp"
#include "target/cpu_events.hpp"
#include "target/process_events.hpp"

namespace vitrine::bpf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// The last CPU, where the kernel lets us take it offline.
class CpuHotplug : public testing::Test {
 protected:
  void SetUp() override {
    cpu_ = target::online_cpus().back();
    path_ = "/sys/devices/system/cpu/cpu" + std::to_string(cpu_) + "/online";
    if (cpu_ == 0 || ::access(path_.c_str(), W_OK) != 0)
      GTEST_SKIP() << "no CPU can be taken offline: " << path_ << " cannot be written";
  }

  void TearDown() override {
    if (is_offline_) {
      EXPECT_TRUE(write("1"));
    }
  }

  void go_and_come_back() {
    is_offline_ = write("0");
    if (!is_offline_) GTEST_SKIP() << "no CPU can be taken offline: the kernel refuses it";
    EXPECT_THAT(target::online_cpus(), testing::Not(testing::Contains(cpu_)));
    ASSERT_TRUE(write("1"));
    is_offline_ = false;
    EXPECT_THAT(target::online_cpus(), testing::Contains(cpu_));
  }

  /// Runs the calling thread on that CPU, and no other.
  void stay() const {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(cpu_, &only);
    EXPECT_EQ(::sched_setaffinity(0, sizeof only, &only), 0);
  }

  [[nodiscard]] int cpu() const { return cpu_; }

 private:
  [[nodiscard]] bool write(const char* text) const {
    std::ofstream file(path_);
    file << text << std::flush;
    return file.good();
  }

  int cpu_ = 0;
  std::string path_;
  bool is_offline_ = false;
};

TEST_F(CpuHotplug, IsSampledAgain) {
  ProfilerOptions options;
  options.frequency = 999;
  OwnProfiler own(options);
  ASSERT_NE(own.profiler, nullptr);
  EXPECT_THAT(own.profiler->renew_clocks().value(), IsEmpty());
  ASSERT_NO_FATAL_FAILURE(go_and_come_back());
  if (IsSkipped()) return;
  EXPECT_THAT(own.profiler->renew_clocks().value(), ElementsAre(cpu()));
  EXPECT_THAT(own.profiler->renew_clocks().value(), IsEmpty());

  std::atomic<pid_t> tid = 0;
  std::jthread spins([&](const std::stop_token& stop) {
    stay();
    tid = ::gettid();
    while (!stop.stop_requested()) {
    }
  });
  own.until([&](const Kept& sample) {
    return sample.head.event.tid == tid &&
           sample.head.event.cpu == static_cast<std::uint32_t>(cpu());
  });
}

TEST_F(CpuHotplug, HasEventsOfProcessesAgain) {
  auto opened = target::ProcessEvents::open();
  ASSERT_TRUE(opened) << opened.error().message;
  target::ProcessEvents& events = **opened;
  ASSERT_NO_FATAL_FAILURE(go_and_come_back());
  if (IsSkipped()) return;
  // It was noticed once this has grown.
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (events.lost() == 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(100ms);
    events.take();
  }
  EXPECT_NE(events.lost(), 0);

  pid_t child = 0;
  std::thread([&] {
    stay();
    child = ::fork();
    if (child == 0) ::_exit(0);
    EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  }).join();
  std::set<pid_t> forked;
  while (!forked.contains(child) && events.wait(20s))
    for (const target::ProcessEvent& event : events.take())
      if (event.kind == target::ProcessEvent::Kind::forked) forked.insert(event.pid);
  EXPECT_TRUE(forked.contains(child));
}

}  // namespace
}  // namespace vitrine::bpf
