// Stacks through musl's libc, which has no CFI: against the calls that single steps see.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <random>
#include <thread>

#include "base/limits.hpp"
#include "observe/profile/program.hpp"
#include "support/child.hpp"
#include "unwind/sampled_stacks.hpp"
#include "unwind/unwinder.hpp"

namespace vitrine {
namespace {

using unwind::End;
using unwind::Frame;

class Musl : public testing::TestWithParam<const char*> {
 protected:
  static std::string subject() { return std::string(SUBJECT_DIR "/musl-") + GetParam(); }
};

observe::ProcessCode code_of(observe::CodeReader& reader, pid_t pid) {
  const int proc = ::open(fmt::format("/proc/{}", pid).c_str(), O_PATH | O_DIRECTORY);
  auto code = reader.read(proc);
  ::close(proc);
  EXPECT_TRUE(code);
  return code ? std::move(*code) : observe::ProcessCode{};
}

std::string place_in(const observe::ProcessCode& code, Address pc) {
  const auto at = code.map.find(pc);
  if (at == unwind::no_region) return fmt::format("{:#x}", pc);
  const std::string& name = code.mappings[at].name;
  return fmt::format("{}+{:#x}", name.substr(name.rfind('/') + 1), pc - code.map[at].bias);
}

/// The calls that a stopped process is in, as single steps have seen them.
class Calls {
 public:
  /// After a step from `before`, with the words at the stack pointer.
  void step(Address before, Address pc, Address sp_before, Address sp, Address word) {
    while (!calls_.empty() && calls_.back().slot < sp) calls_.pop_back();
    const bool is_call = sp == sp_before - 8 && word > before && word - before <= 9 && pc != word;
    if (is_call) calls_.push_back({sp, word});
  }
  /// Innermost first.
  [[nodiscard]] std::vector<Address> returns() const {
    std::vector<Address> all;
    for (auto call = calls_.rbegin(); call != calls_.rend(); ++call) all.push_back(call->back_to);
    return all;
  }

 private:
  struct Call {
    Address slot, back_to;
  };
  std::vector<Call> calls_;
};

TEST_P(Musl, CallersAreThoseThatSingleStepsSee) {
  const std::string program = subject();
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::execl(program.c_str(), program.c_str(), "3", nullptr);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);  // at exec
  ::ptrace(PTRACE_SETOPTIONS, pid, nullptr, PTRACE_O_EXITKILL);
  ::ptrace(PTRACE_CONT, pid, nullptr, nullptr);
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);  // at int3
  ASSERT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);

  observe::CodeReader reader;
  const auto code = code_of(reader, pid);
  unwind::Unwinder unwinder(code.map);
  Calls calls;
  std::vector<Frame> frames;
  std::vector<std::byte> bytes;
  std::size_t steps = 0, whole = 0, cut = 0, wrong = 0;
  std::map<std::string, std::size_t> places;
  user_regs_struct before{}, now{};
  ::ptrace(PTRACE_GETREGS, pid, nullptr, &before);
  constexpr std::size_t most_steps = 120'000;
  while (steps < most_steps) {
    ::ptrace(PTRACE_SINGLESTEP, pid, nullptr, nullptr);
    if (::waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) break;
    ::ptrace(PTRACE_GETREGS, pid, nullptr, &now);
    bytes.resize(8192);
    const iovec into{bytes.data(), bytes.size()};
    const std::size_t in_page = 4096 - now.rsp % 4096;
    const iovec from[] = {{reinterpret_cast<void*>(now.rsp), in_page},
                          {reinterpret_cast<void*>(now.rsp + in_page), bytes.size() - in_page}};
    const ssize_t got = ::process_vm_readv(pid, &into, 1, from, 2, 0);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    const unwind::Stack stack{now.rsp, bytes};
    Address word = 0;
    stack.read(now.rsp, word);
    calls.step(before.rip, now.rip, before.rsp, now.rsp, word);
    before = now;
    ++steps;

    std::array<std::uint64_t, sizeof now / sizeof(std::uint64_t)> words{};
    std::memcpy(words.data(), &now, sizeof now);
    const auto registers = unwind::from_pt_regs(Machine::x86_64, words).value();
    const End end = unwinder.unwind(registers, stack, frames);
    const std::vector<Address> truth = calls.returns();
    std::size_t same = 0;
    while (same + 1 < frames.size() && same < truth.size() && frames[same + 1].pc == truth[same])
      ++same;
    if (same == truth.size() && end == End::outermost && frames.size() > same + 1) {
      ++whole;  // below main: how it was called, which was before the first step
    } else if (same + 1 == frames.size() && end != End::outermost) {
      ++cut;
      ++places["cut at " + place_in(code, frames.back().pc)];
    } else {
      ++wrong;
      ++places["wrong after " + place_in(code, frames[same].pc)];
    }
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, &status, 0);
  fmt::print("{}: {} steps, {} whole, {} cut, {} wrong\n", program, steps, whole, cut, wrong);
  for (const auto& [what, times] : places) fmt::print("  {} times {}\n", times, what);
  EXPECT_GT(steps, 50'000U);
  EXPECT_EQ(wrong, 0U);
  // A step is seldom a moment: what is cut most are the few instructions around a switch.
  EXPECT_GT(whole * 100, steps * 93);
}

TEST_P(Musl, StacksOfThreadsAreWhole) {
  auto child = test::Child::spawn({subject()});
  ASSERT_EQ(child.read_line(), "ready");
  observe::CodeReader reader;
  const auto code = code_of(reader, child.pid());
  EXPECT_THAT(reader.problems(), testing::IsEmpty());
  unwind::Unwinder unwinder(code.map);
  const std::vector<pid_t> tids = test::threads_of(child.pid());
  ASSERT_EQ(tids.size(), 2U);
  std::mt19937 random(1);
  std::size_t samples = 0, whole = 0;
  std::map<std::string, std::size_t> places;
  std::vector<Frame> frames;
  constexpr std::size_t samples_wanted = 2000;
  while (samples < samples_wanted) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    const auto sample = test::sample_thread(tids[random() % tids.size()], limits::stack_copy);
    ASSERT_TRUE(sample);
    ++samples;
    const End end = unwinder.unwind(sample->registers, sample->stack(), frames);
    if (end == End::outermost && frames.size() > 1)
      ++whole;
    else
      ++places[fmt::format("{} after {}", static_cast<int>(end), place_in(code, frames.back().pc))];
  }
  fmt::print("{}: {} of {} whole\n", subject(), whole, samples);
  for (const auto& [what, times] : places) fmt::print("  {} times {}\n", times, what);
  EXPECT_GE(whole * 100, samples * 99);
}

INSTANTIATE_TEST_SUITE_P(Of, Musl, testing::Values("dynamic", "static"),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
}  // namespace vitrine
