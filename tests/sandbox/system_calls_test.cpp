#include "sandbox/system_calls.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <set>
#include <string>
#include <thread>

#include "sandbox/child_process.hpp"

namespace vitrine::sandbox {
namespace {

using test::in_child;

constexpr Calls every_group[] = {Calls::memory,  Calls::reading,   Calls::files,   Calls::changing,
                                 Calls::threads, Calls::processes, Calls::tracing, Calls::kernel,
                                 Calls::network, Calls::ipc,       Calls::execute};

/// What a process that computes and prints does.
const SystemCalls plain{Calls::memory, Calls::reading};

Filter compiled(const SystemCalls& calls) {
  auto filter = calls.compile();
  if (filter) return std::move(*filter);
  ADD_FAILURE() << filter.error().message;
  return {};
}

bool is_missing(long result) {
  return result == -1 && errno == ENOSYS;
}

TEST(SystemCalls, GroupsHaveNamesAndNoGroupHasAnotherProgramRunButOne) {
  for (const Calls group : every_group) {
    const auto names = names_of(group);
    EXPECT_FALSE(names.empty());
    const std::set<std::string> all(names.begin(), names.end());
    EXPECT_EQ(all.size(), names.size()) << "one is there twice";
    EXPECT_EQ(all.contains("execve"), group == Calls::execute);
    EXPECT_EQ(all.contains("ptrace"), group == Calls::tracing);
    EXPECT_EQ(all.contains("socket"), group == Calls::network);
    EXPECT_FALSE(all.contains("clone3"));
    for (const char* never : {"mount", "setns", "init_module", "kexec_load", "setuid", "chroot",
                              "process_vm_writev", "io_uring_setup", "keyctl"})
      EXPECT_FALSE(all.contains(never)) << never;
  }
}

TEST(SystemCalls, ThatAreNotOnTheListAreMissing) {
  const Filter filter = compiled(plain);
  EXPECT_GT(filter.size(), 0U);
  const int outcome = in_child([&] {
    if (!filter.install()) return 1;
    if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != -1 || errno != ENOSYS) return 2;
    if (!is_missing(::open("/dev/null", O_RDONLY))) return 3;
    if (!is_missing(::socket(AF_INET, SOCK_STREAM, 0))) return 4;
    if (!is_missing(::execl("/bin/true", "true", nullptr))) return 5;
    if (!is_missing(::fork())) return 6;
    if (!is_missing(::syscall(SYS_ptrace, 0, 0, 0, 0))) return 7;
    if (!is_missing(::syscall(9999))) return 8;
    if (::write(STDERR_FILENO, "", 0) != 0 || ::getpid() <= 0) return 9;
    return 0;
  });
  EXPECT_EQ(outcome, 0);
}

TEST(SystemCalls, OfAnyGroupCompileAndAllOfThemLeaveExecutionOut) {
  SystemCalls all;
  for (const Calls group : every_group) {
    compiled(SystemCalls({group}));
    if (group != Calls::execute) all.allow(group);
  }
  const Filter filter = compiled(all);
  const int outcome = in_child([&] {
    if (!filter.install(Filter::Scope::process)) return 1;
    if (::open("/dev/null", O_RDONLY) < 0) return 2;
    if (::socket(AF_UNIX, SOCK_STREAM, 0) < 0) return 3;
    return is_missing(::execl("/bin/true", "true", nullptr)) ? 0 : 4;
  });
  EXPECT_EQ(outcome, 0);
}

TEST(SystemCalls, KillWhereThatIsWanted) {
  const Filter filter = compiled(SystemCalls(plain).refuse(SystemCalls::Refusal::kill));
  const int outcome = in_child([&] {
    if (!filter.install()) return 1;
    ::open("/dev/null", O_RDONLY);
    return 2;
  });
  EXPECT_EQ(outcome, 128 + SIGSYS);
}

void answer_with_seven(int, siginfo_t*, void* context) {
  auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  machine.gregs[REG_RAX] = 7;
#else
  machine.regs[0] = 7;
#endif
}

TEST(SystemCalls, ATrappedOneIsAnsweredByAHandler) {
  const Filter filter = compiled(SystemCalls(plain).allow(Calls::files).trap({"open", "openat"}));
  const int outcome = in_child([&] {
    struct sigaction action {};
    action.sa_sigaction = answer_with_seven;
    action.sa_flags = SA_SIGINFO;
    if (::sigaction(SIGSYS, &action, nullptr) != 0 || !filter.install()) return 1;
    if (::open("/no/such/file", O_RDONLY) != 7) return 2;
    return ::access("/dev/null", F_OK) == 0 ? 0 : 3;  // of the same group, not trapped
  });
  EXPECT_EQ(outcome, 0);
}

TEST(SystemCalls, MakeThreadsAndChildrenButNoNamespaces) {
  const Filter filter = compiled({Calls::memory, Calls::reading, Calls::threads});
  const int outcome = in_child([&] {
    if (!filter.install()) return 1;
    int seen = 0;
    std::thread([&] { seen = 1; }).join();
    if (seen != 1) return 2;
    if (in_child([] { return 42; }) != 42) return 3;
    if (!is_missing(::syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0))) return 4;
    return is_missing(::unshare(CLONE_NEWUSER)) ? 0 : 5;
  });
  EXPECT_EQ(outcome, 0);
}

TEST(SystemCalls, AskTheTerminalAndDoNotTypeIntoIt) {
  const Filter filter = compiled(plain);
  int master = -1, terminal = -1;
  ASSERT_EQ(::openpty(&master, &terminal, nullptr, nullptr, nullptr), 0);
  const int outcome = in_child([&] {
    ::setsid();
    ::ioctl(terminal, TIOCSCTTY, 0);
    if (!filter.install()) return 1;
    winsize size{};
    if (::ioctl(terminal, TIOCGWINSZ, &size) != 0 || ::isatty(terminal) != 1) return 2;
    char letter = 'x';
    if (!is_missing(::ioctl(terminal, TIOCSTI, &letter))) return 3;
    if (!is_missing(::ioctl(terminal, 1UL << 40 | TIOCSTI, &letter))) return 4;
    int bytes = 0;
    return ::ioctl(terminal, FIONREAD, &bytes) == 0 ? 0 : 5;
  });
  EXPECT_EQ(outcome, 0);
  ::close(master);
  ::close(terminal);
}

TEST(SystemCalls, AreTightenedByASecondFilterAndNeverLoosened) {
  const Filter first = compiled({Calls::memory, Calls::reading, Calls::files, Calls::threads});
  const Filter second = compiled({Calls::memory, Calls::reading});
  const int outcome = in_child([&] {
    if (!first.install() || ::access("/dev/null", F_OK) != 0) return 1;
    if (!second.install() || !is_missing(::access("/dev/null", F_OK))) return 2;
    return first.install() ? 3 : 0;
  });
  EXPECT_EQ(outcome, 0);
}

TEST(SystemCalls, AreThoseOfEveryThreadOfAProcess) {
  const Filter filter = compiled({Calls::memory, Calls::reading, Calls::threads});
  for (const auto scope : {Filter::Scope::thread, Filter::Scope::process}) {
    const int outcome = in_child([&] {
      std::atomic<bool> confined{false};
      bool missing = false;
      std::thread other([&] {
        while (!confined) std::this_thread::yield();
        missing = is_missing(::access("/dev/null", F_OK));
      });
      const bool installed = filter.install(scope);
      confined = true;
      other.join();
      if (!installed) return 1;
      return missing ? 10 : 20;
    });
    EXPECT_EQ(outcome, scope == Filter::Scope::process ? 10 : 20);
  }
}

TEST(SystemCalls, OfNamesThatNoMachineHasCompile) {
  const Filter filter = compiled(SystemCalls(plain).allow({"no_such_call"}));
  EXPECT_EQ(filter.size(), compiled(plain).size());
}

}  // namespace
}  // namespace vitrine::sandbox
