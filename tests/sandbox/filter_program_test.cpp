#include "sandbox/filter_program.hpp"

#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>

namespace vitrine::sandbox {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t here = AUDIT_ARCH_X86_64;
#else
constexpr std::uint32_t here = AUDIT_ARCH_AARCH64;
#endif
constexpr std::uint32_t refusal = SECCOMP_RET_ERRNO | EXDEV;

/// What the kernel does with a call. 0xffffffff: the program is wrong.
std::uint32_t run(const std::vector<sock_filter>& program, const seccomp_data& call) {
  std::uint32_t a = 0;
  for (std::size_t at = 0; at < program.size(); ++at) {
    const auto [code, if_true, if_false, k] = program[at];
    const auto jump = [&, yes = if_true, no = if_false](bool truth) { at += truth ? yes : no; };
    switch (code) {
      case BPF_LD | BPF_W | BPF_ABS:
        std::memcpy(&a, reinterpret_cast<const char*>(&call) + k, sizeof a);
        break;
      case BPF_ALU | BPF_AND | BPF_K:
        a &= k;
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        jump(a == k);
        break;
      case BPF_JMP | BPF_JGE | BPF_K:
        jump(a >= k);
        break;
      case BPF_JMP | BPF_JSET | BPF_K:
        jump((a & k) != 0);
        break;
      case BPF_JMP | BPF_JA:
        at += k;
        break;
      case BPF_RET | BPF_K:
        return k;
      default:
        return ~0U;
    }
  }
  return ~0U;
}

std::uint32_t run(const std::vector<sock_filter>& program, std::uint32_t number,
                  std::uint32_t architecture = here, std::uint64_t first = 0,
                  std::uint64_t second = 0) {
  seccomp_data call{};
  call.nr = static_cast<int>(number);
  call.arch = architecture;
  call.args[0] = first;
  call.args[1] = second;
  return run(program, call);
}

TEST(FilterProgram, RulesEachCallAlsoWhereJumpsAreFar) {
  std::map<std::uint32_t, Ruling> calls;
  for (std::uint32_t number = 0; number < 2000; number += 2)
    calls[number] = number % 6 == 0   ? Ruling::trapped
                    : number % 6 == 2 ? Ruling::absent
                                      : Ruling::allowed;
  const auto program = filter_program(calls, refusal);
  ASSERT_LE(program.size(), BPF_MAXINSNS);
  for (std::uint32_t number = 0; number < 2100; ++number) {
    const std::uint32_t expected = number >= 2000 || number % 2 != 0 ? refusal
                                   : number % 6 == 0                 ? SECCOMP_RET_TRAP
                                   : number % 6 == 2                 ? SECCOMP_RET_ERRNO | ENOSYS
                                                                     : SECCOMP_RET_ALLOW;
    ASSERT_EQ(run(program, number), expected) << number;
  }
}

TEST(FilterProgram, RefusesWhatIsOnNoListAndKillsOtherArchitectures) {
  const auto program = filter_program({{SYS_read, Ruling::allowed}}, refusal);
  EXPECT_EQ(run(program, SYS_read), SECCOMP_RET_ALLOW);
  EXPECT_EQ(run(program, SYS_read, AUDIT_ARCH_I386), SECCOMP_RET_KILL_PROCESS);
  EXPECT_EQ(run(program, SYS_execve), refusal);
#if defined(__x86_64__)
  EXPECT_EQ(run(program, 0x40000000 | SYS_read), SECCOMP_RET_KILL_PROCESS);
  EXPECT_EQ(run(program, 0xffffffff), SECCOMP_RET_KILL_PROCESS);
#endif
  EXPECT_EQ(run(filter_program({}, refusal), SYS_read), refusal);
}

TEST(FilterProgram, LooksAtArgumentsOfTwoCalls) {
  const auto program =
      filter_program({{SYS_clone, Ruling::threads}, {SYS_ioctl, Ruling::descriptors}}, refusal);
  const auto clone = [&](std::uint64_t flags) { return run(program, SYS_clone, here, flags); };
  EXPECT_EQ(clone(CLONE_VM | CLONE_THREAD), SECCOMP_RET_ALLOW);
  for (const std::uint64_t space : {CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                    CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET})
    EXPECT_EQ(clone(space | CLONE_VM), refusal) << space;
  const auto ioctl = [&](std::uint64_t request) {
    return run(program, SYS_ioctl, here, 0, request);
  };
  for (const std::uint64_t request : {TCGETS, TIOCGPGRP, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX})
    EXPECT_EQ(ioctl(request), SECCOMP_RET_ALLOW) << request;
  EXPECT_EQ(ioctl(0x802c542a), SECCOMP_RET_ALLOW) << "TCGETS2";
  EXPECT_EQ(ioctl(0x40042408), SECCOMP_RET_ALLOW) << "another type: PERF_EVENT_IOC_SET_BPF";
  for (const std::uint64_t request : {TIOCSTI, TCSETS, TIOCSWINSZ, TIOCLINUX, TIOCSCTTY}) {
    EXPECT_EQ(ioctl(request), refusal) << request;
    EXPECT_EQ(ioctl(1ULL << 32 | request), refusal) << "the kernel takes 32 bits of it";
  }
}

}  // namespace
}  // namespace vitrine::sandbox
