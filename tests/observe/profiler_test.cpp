// The profiler on programs of others: their labels in every format, and their stacks to the bottom.
#include "bpf/profiler.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "observe/events/event_labels.hpp"
#include "observe/profile/program.hpp"
#include "observe/writer_labels.hpp"
#include "support/child.hpp"
#include "unwind/frame.hpp"
#include "unwind/unwinder.hpp"

namespace vitrine::test {
namespace {

using namespace std::chrono_literals;
using testing::IsEmpty;

constexpr auto long_enough = 60s;

std::unique_ptr<bpf::Profiler> open_profiler(const bpf::ProfilerOptions& options) {
  auto opened = bpf::Profiler::open(options);
  EXPECT_TRUE(opened) << opened.error().message;
  return opened ? std::move(*opened) : nullptr;
}

class ProfilerLabels : public testing::TestWithParam<WriterSpec> {};

TEST_P(ProfilerLabels, OfAThreadThatWaits) {
  Writer writer = Writer::start(GetParam());
  bpf::ProfilerOptions options;
  options.frequency = 0;
  options.off_cpu = true;
  const auto profiler = open_profiler(options);
  ASSERT_TRUE(profiler);
  observe::EventLabels labels(*profiler, {}, {});
  observe::ProcessLabels its;
  labels.look_at(writer.pid(), its);
  EXPECT_THAT(labels.take_notes(), IsEmpty());
  ASSERT_TRUE(profiler->start());
  std::set<pid_t> publishing, seen;
  for (const SlotTruth& slot : writer.slots()) publishing.insert(slot.tid);
  const auto take = [&](const bpf::StackSample& sample) {
    const vitrine_event_header& moment = sample.head.event;
    const observe::DisplayedLabels& displayed = labels.of(moment, sample.sets, &its);
    if (!publishing.contains(moment.tid)) return;
    EXPECT_EQ(displayed.error, "");
    expect_labels_of(writer, moment.tid, displayed.set);
    seen.insert(moment.tid);
  };
  const auto end = std::chrono::steady_clock::now() + long_enough;
  while (seen != publishing && std::chrono::steady_clock::now() < end) {
    writer.command("spin 1");  // each thread does it, and waits again
    ASSERT_TRUE(profiler->poll(10ms, {take}));
  }
  EXPECT_EQ(seen, publishing);
  EXPECT_EQ(profiler->counters().lost, 0u);
}

INSTANTIATE_TEST_SUITE_P(Formats, ProfilerLabels, testing::ValuesIn(format_matrix()),
                         name_of_writer);

class ProfilerStacks : public testing::TestWithParam<const char*> {};

/// Of optimised programs without frame pointers, whose stacks are of every kind (tests/unwind).
TEST_P(ProfilerStacks, AreUnwoundToTheirBottom) {
  constexpr std::size_t enough = 1000;
  auto child = Child::spawn({std::string(SUBJECT_DIR "/") + GetParam(), "3"});
  ASSERT_EQ(child.read_line(), "ready");
  bpf::ProfilerOptions options;
  options.frequency = 1999;
  options.stack_bytes = limits::stack_copy;
  const auto profiler = open_profiler(options);
  ASSERT_TRUE(profiler);
  observe::CodeReader reader;
  const int proc = ::open(fmt::format("/proc/{}", child.pid()).c_str(), O_PATH | O_DIRECTORY);
  const auto code = reader.read(proc);
  ::close(proc);
  ASSERT_TRUE(code) << code.error().message;
  unwind::Unwinder unwinder(code->map);
  vitrine_target nothing{};
  ASSERT_TRUE(profiler->want(child.pid(), nothing));
  ASSERT_TRUE(profiler->start());
  std::size_t samples = 0, whole = 0;
  std::map<std::string, std::size_t> others;  // how the rest ends, and where
  std::vector<unwind::Frame> frames;
  const auto take = [&](const bpf::StackSample& sample) {
    const auto registers = unwind::from_pt_regs(native_machine, sample.registers);
    ASSERT_TRUE(registers);
    ++samples;
    const unwind::End end = unwinder.unwind(*registers, {sample.stack_start, sample.stack}, frames);
    const bool on_handlers_stack =
        end == unwind::End::other_stack && frames.size() > 1 && !frames.back().is_return_address;
    if (end == unwind::End::outermost || on_handlers_stack) {
      ++whole;
    } else {
      ++others[fmt::format("end {} after {} frames, {} bytes{}", static_cast<int>(end),
                           frames.size(), sample.stack.size(),
                           sample.kernel_stack.empty() ? "" : ", in kernel")];
    }
  };
  const auto end = std::chrono::steady_clock::now() + long_enough;
  while (samples < enough && std::chrono::steady_clock::now() < end)
    ASSERT_TRUE(profiler->poll(100ms, {take}));
  ASSERT_GE(samples, enough);
  fmt::print("{} of {} stacks to the bottom\n", whole, samples);
  for (const auto& [what, count] : others) fmt::print("  {} {}\n", count, what);
  EXPECT_GE(whole, samples * 99 / 100);
}

INSTANTIATE_TEST_SUITE_P(Compilers, ProfilerStacks, testing::Values("gcc", "clang"));

/// A number that another process has by now is not the process that was wanted.
TEST(ProfilerProcesses, AreNotThoseThatGotTheirNumbers) {
  const std::string program = SUBJECT_DIR "/gcc";
  const auto start = [&](pid_t pid) {
    ChildOptions options;
    options.pid = pid;
    auto child = Child::spawn({program, "3"}, options);
    EXPECT_EQ(child.read_line(), "ready");
    return child;
  };
  auto child = start(0);
  const auto other = start(0);
  bpf::ProfilerOptions options;
  options.frequency = 999;
  const auto profiler = open_profiler(options);
  ASSERT_TRUE(profiler);
  for (const pid_t pid : {child.pid(), other.pid()})
    ASSERT_TRUE(profiler->want(pid, vitrine_target{}));
  ASSERT_TRUE(profiler->start());
  std::map<pid_t, std::size_t> samples;
  const auto take = [&](const bpf::StackSample& sample) { ++samples[sample.head.event.pid]; };
  const auto poll_until = [&](const auto& enough) {
    const auto end = std::chrono::steady_clock::now() + long_enough;
    while (!enough() && std::chrono::steady_clock::now() < end)
      ASSERT_TRUE(profiler->poll(20ms, {take}));
    ASSERT_TRUE(enough());
  };
  poll_until([&] { return samples[child.pid()] > 0; });
  const pid_t pid = child.pid();
  child.signal(SIGKILL);
  ASSERT_TRUE(child.wait());
  ASSERT_TRUE(profiler->poll(0ms, {take}));
  samples.clear();
  child = start(pid);
  ASSERT_EQ(child.pid(), pid);
  poll_until([&] { return samples[other.pid()] > 100; });
  EXPECT_EQ(samples[pid], 0U);
  // Once it is wanted itself, it is sampled.
  ASSERT_TRUE(profiler->want(pid, vitrine_target{}));
  poll_until([&] { return samples[pid] > 0; });
}

/// Ids of what a process has of the kernel, by what its descriptors tell of them.
std::set<unsigned> ids_of(pid_t pid, const std::string& what) {
  std::set<unsigned> ids;
  std::error_code gone;
  const auto infos = fmt::format("/proc/{}/fdinfo", pid);
  for (const auto& entry : std::filesystem::directory_iterator(infos, gone)) {
    std::ifstream info(entry.path());
    for (std::string word; info >> word;)
      if (unsigned id = 0; word == what + ":" && info >> id) ids.insert(id);
  }
  return ids;
}

bool has_perf_events(pid_t pid) {
  std::error_code gone;
  for (const auto& entry :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid), gone))
    if (std::filesystem::read_symlink(entry.path(), gone).string().find("perf_event") !=
        std::string::npos)
      return true;
  return false;
}

bool is_loaded(unsigned program) {
  bpf_attr attr{};
  attr.prog_id = program;
  const auto fd = static_cast<int>(::syscall(SYS_bpf, BPF_PROG_GET_FD_BY_ID, &attr, sizeof attr));
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

TEST(ProfilerEnd, LeavesNothingHoweverItEnds) {
  auto target = Child::spawn({SUBJECT_DIR "/gcc", "2"});
  ASSERT_EQ(target.read_line(), "ready");
  for (int round = 0; round < 2; ++round) {
    auto profiling = Child::spawn({PROFILER_ALONE, std::to_string(target.pid())});
    ASSERT_EQ(profiling.read_line(), "sampling");
    const std::set<unsigned> programs = ids_of(profiling.pid(), "prog_id");
    ASSERT_GE(programs.size(), 2u);
    ASSERT_TRUE(has_perf_events(profiling.pid()));
    std::this_thread::sleep_for(std::chrono::milliseconds(3 * round));
    profiling.signal(SIGKILL);
    ASSERT_EQ(profiling.wait(), 128 + SIGKILL);
    for (const unsigned program : programs) {
      const auto end = std::chrono::steady_clock::now() + long_enough;
      while (is_loaded(program) && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(1ms);  // the kernel frees it when no CPU can be in it
      EXPECT_FALSE(is_loaded(program));
    }
  }
  std::ifstream status(fmt::format("/proc/{}/status", target.pid()));
  const std::string text{std::istreambuf_iterator<char>(status), {}};
  EXPECT_THAT(text, testing::HasSubstr("TracerPid:\t0"));
}

}  // namespace
}  // namespace vitrine::test
