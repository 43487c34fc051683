// What belongs to one process when a program forks.
#include "base/own_process.hpp"

#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <set>
#include <thread>
#include <vector>

namespace vitrine {
namespace {

int status_of_fork(const std::function<bool()>& holds) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(holds() ? 0 : 1);
  int status = -1;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

TEST(OwnProcess, IsNotThatOfAFork) {
  OwnProcess own;
  EXPECT_TRUE(own.is_here());
  EXPECT_EQ(status_of_fork([&] {
              if (own.is_here()) return false;
              own.renew();
              return own.is_here() && status_of_fork([&] { return !own.is_here(); }) == 0;
            }),
            0);
  EXPECT_TRUE(own.is_here());
}

/// As fork(), without libc's knowledge, with this ID. Negative: an errno.
pid_t fork_as(pid_t pid) {
  clone_args args{};
  args.exit_signal = SIGCHLD;
  args.set_tid = reinterpret_cast<std::uintptr_t>(&pid);
  args.set_tid_size = 1;
  const long got = ::syscall(SYS_clone3, &args, sizeof args);
  return static_cast<pid_t>(got < 0 ? -errno : got);
}

TEST(OwnProcess, IsNotThatOfADescendantWithTheSameId) {
  constexpr int not_permitted = 77;
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  // The maker; the fork between, which goes on when that has been reaped; and the one that has its number.
  const pid_t maker = ::fork();
  if (maker == 0) {
    const OwnProcess own;
    const pid_t number = ::getpid();
    if (::fork() != 0) ::_exit(0);
    while (::kill(number, 0) == 0) ::usleep(1000);
    const pid_t again = fork_as(number);
    int result = again < 0 ? not_permitted : 1;
    if (again == 0) ::_exit(::getpid() == number && !own.is_here() ? 0 : 1);
    if (again > 0) {
      int status = -1;
      ::waitpid(again, &status, 0);
      result = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    ::_exit(::write(pipe[1], &result, sizeof result) == sizeof result ? 0 : 1);
  }
  ::close(pipe[1]);
  ASSERT_EQ(::waitpid(maker, nullptr, 0), maker);
  int result = -1;
  ASSERT_EQ(::read(pipe[0], &result, sizeof result), static_cast<ssize_t>(sizeof result));
  ::close(pipe[0]);
  if (result == not_permitted) GTEST_SKIP() << "it takes CAP_CHECKPOINT_RESTORE to choose an ID";
  EXPECT_EQ(result, 0);
}

TEST(OwnProcess, AllThreadsHaveOneOfAProcess) {
  struct Shared {
    std::atomic<int> count{0};
  };
  const auto add_many = [] {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([] {
        for (int n = 0; n < 1000; ++n) ++PerProcess<Shared>::get().count;
      });
    threads.clear();
    return PerProcess<Shared>::get().count.load();
  };
  EXPECT_EQ(status_of_fork([&] { return add_many() == 8000; }), 0);  // where none has been made yet
  EXPECT_EQ(add_many(), 8000);
  EXPECT_EQ(status_of_fork([&] { return add_many() == 8000; }), 0);  // not the parent's
  EXPECT_EQ(PerProcess<Shared>::get().count, 8000);
}

TEST(OwnProcess, WhatEndsHereEndsInNoFork) {
  static int ends = 0;
  struct CountsEnds {
    ~CountsEnds() { ++ends; }
  };
  {
    const EndsHere<CountsEnds> one;
    EXPECT_EQ(status_of_fork([&] {
                one.~EndsHere();
                return ends == 0;
              }),
              0);
    EXPECT_EQ(ends, 0);
  }
  EXPECT_EQ(ends, 1);
}

}  // namespace
}  // namespace vitrine
