// Opening a process: what it is, and every way it can be refused.
#include "target/process.hpp"

#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "target/proc_file.hpp"
#include "target/threads.hpp"
#include "target_subject.hpp"

namespace vitrine::target {
namespace {

using testing::HasSubstr;

TEST(Process, OpensALiveOne) {
  Subject subject;
  auto process = Process::open(subject.child.pid());
  ASSERT_TRUE(process) << process.error().message;
  EXPECT_EQ(process->pid(), subject.child.pid());
  EXPECT_EQ(process->executable_path(), TARGET_SUBJECT);
  EXPECT_TRUE(process->auxv().contains(AT_PHDR));
  EXPECT_NE(process->identity().start_time, 0U);
  EXPECT_TRUE(process->open_executable());
  EXPECT_TRUE(process->verify());
}

TEST(Process, TwoProcessesOfOneProgramDiffer) {
  Subject one, two;
  EXPECT_FALSE(Process::open(one.child.pid())->identity() ==
               Process::open(two.child.pid())->identity());
}

TEST(Process, OpensItsOwn) {
  EXPECT_TRUE(Process::open(::getpid()));
}

TEST(Process, RefusesWhatIsNotThere) {
  for (const pid_t pid : {0, -1, 4'194'305}) {
    const auto process = Process::open(pid);
    ASSERT_FALSE(process);
    EXPECT_EQ(process.error().code, ErrorCode::not_found);
    EXPECT_THAT(process.error().message, HasSubstr("no such process"));
  }
}

TEST(Process, TellsTheGroupOfAThread) {
  Subject subject;
  const std::string answer = subject.ask("thread worker");
  const auto process = Process::open(std::stoi(answer));
  ASSERT_FALSE(process);
  EXPECT_EQ(process.error().code, ErrorCode::not_found);
  EXPECT_THAT(process.error().message,
              HasSubstr("is a thread of process " + std::to_string(subject.child.pid())));
}

TEST(Process, RefusesAZombie) {
  Subject subject;
  const pid_t child = std::stoi(subject.ask("zombie"));
  // Not our child: wait until it is a zombie by looking.
  Result<Process> process = Process::open(child);
  for (int i = 0; i < 1000 && process; ++i) {
    ::usleep(1000);
    process = Process::open(child);
  }
  ASSERT_FALSE(process);
  EXPECT_EQ(process.error().code, ErrorCode::not_found);
  EXPECT_THAT(process.error().message, HasSubstr("zombie"));
}

TEST(Process, RefusesAKernelThread) {
  const auto process = Process::open(2);  // kthreadd
  ASSERT_FALSE(process);
  EXPECT_EQ(process.error().code, ErrorCode::unsupported);
  EXPECT_THAT(process.error().message, HasSubstr("is a kernel thread"));
}

TEST(Process, RefusesA32BitProgram) {
  auto child = test::Child::spawn({I386_SUBJECT});
  ASSERT_EQ(child.read_line(), "ready");
  const auto process = Process::open(child.pid());
  ASSERT_FALSE(process);
  EXPECT_EQ(process.error().code, ErrorCode::unsupported);
  EXPECT_THAT(process.error().message, HasSubstr("is a 32-bit program"));
}

TEST(Process, NoticesItsEnd) {
  Subject subject;
  auto process = Process::open(subject.child.pid());
  ASSERT_TRUE(process);
  subject.child.close_stdin();
  ASSERT_EQ(subject.child.wait(), 0);
  const auto same = process->verify();
  ASSERT_FALSE(same);
  EXPECT_EQ(same.error().code, ErrorCode::not_found);
  EXPECT_THAT(same.error().message, HasSubstr("has ended"));
}

TEST(Process, AnotherWithItsNumberIsNotTakenForIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: chooses the number of a process";
  Subject subject;
  const pid_t pid = subject.child.pid();
  auto process = Process::open(pid);
  ASSERT_TRUE(process);
  subject.child.close_stdin();
  ASSERT_EQ(subject.child.wait(), 0);
  test::ChildOptions options;
  options.pid = pid;
  const Subject other(options);  // it executes the same program
  ASSERT_EQ(other.child.pid(), pid);
  const auto same = process->verify();
  ASSERT_FALSE(same);
  EXPECT_EQ(same.error().code, ErrorCode::not_found);
  EXPECT_FALSE(read_file_at(process->proc_dir(), "stat", 4096));
  EXPECT_FALSE(open_at(process->proc_dir(), "maps", O_RDONLY));
  EXPECT_FALSE(process->open_executable());
  const auto again = Process::open(pid);
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->identity() == process->identity());
}

TEST(Process, NoticesExecOfTheSameProgram) {
  Subject subject;
  auto process = Process::open(subject.child.pid());
  ASSERT_TRUE(process);
  subject.ask(std::string("exec ") + TARGET_SUBJECT);
  const auto same = process->verify();
  ASSERT_FALSE(same);
  EXPECT_EQ(same.error().code, ErrorCode::another_program);
  const auto again = Process::open(subject.child.pid());
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->identity() == process->identity());
  EXPECT_EQ(again->identity().start_time, process->identity().start_time);
}

TEST(Process, ServesAProcessWhoseLeaderHasExited) {
  Subject subject;
  const auto page = std::stoull(subject.ask("memory"), nullptr, 16);
  subject.ask("thread worker");
  auto opened_before = Process::open(subject.child.pid());
  ASSERT_TRUE(opened_before);
  subject.child.write("leader-exit\n");
  auto opened_after = Process::open(subject.child.pid());
  for (int i = 0; i < 1000; ++i) {  // until the leader is a zombie
    if (thread(opened_before->proc_dir(), subject.child.pid())->ended()) break;
    ::usleep(1000);
  }
  opened_after = Process::open(subject.child.pid());
  ASSERT_TRUE(opened_after) << opened_after.error().message;
  for (auto* process : {&*opened_before, &*opened_after}) {
    EXPECT_TRUE(process->verify());
    const auto value = process->memory().read_value<std::uint32_t>(page, "the pattern");
    ASSERT_TRUE(value) << value.error().message;
    EXPECT_EQ(*value, 0x03020100U);
    EXPECT_EQ(process->executable_path(), TARGET_SUBJECT);
    EXPECT_TRUE(process->open_executable());
  }
}

// A fork has the same AT_RANDOM, and may get the number of a thread that has ended.
TEST(Process, ReadsNoForkThatHasTheNumberOfOneOfItsThreads) {
  test::Child child = test::Child::spawn({REUSED_THREAD});
  const std::string ready = child.read_line().value_or("");
  ASSERT_TRUE(ready.starts_with("ready "));
  const Address word = std::stoull(ready.substr(6), nullptr, 16);
  auto process = Process::open(child.pid());
  ASSERT_TRUE(process) << process.error().message;
  const auto read = [&] {
    return process->memory().read_value<std::uint64_t>(word, "the word").value_or(0);
  };
  EXPECT_EQ(read(), 1U);  // by the thread with the lowest number: that which ends
  child.write("go\n");
  ASSERT_EQ(child.read_line(), "reused") << "clone3 with set_tid wants root";
  EXPECT_EQ(read(), 1U);
  EXPECT_TRUE(process->verify());
}

// What a process of uid 65534 without capabilities is told when it opens `pid`; `first`: what it does as root.
std::string told_to_nobody(
    pid_t pid, bool (*first)() = [] { return true; }) {
  int pipes[2];
  if (::pipe(pipes) != 0) return "pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    std::string text = "cannot become nobody";
    if (first() && ::setgroups(0, nullptr) == 0 && ::setgid(65534) == 0 && ::setuid(65534) == 0) {
      const auto process = Process::open(pid);
      text = process ? "opened" : process.error().message + "\n" + process.error().remedy;
    }
    const auto written = ::write(pipes[1], text.data(), text.size());
    ::_exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  ::close(pipes[1]);
  std::string text(4096, '\0');
  const ssize_t n = ::read(pipes[0], text.data(), text.size());
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  ::close(pipes[0]);
  ::waitpid(child, nullptr, 0);
  return text;
}

TEST(Process, NamesTheOwnerAndTheCapabilityWhenRefused) {
  Subject subject;
  const std::string told = told_to_nobody(subject.child.pid());
  EXPECT_THAT(told, HasSubstr("not permitted"));
  EXPECT_THAT(told, HasSubstr("belongs to uid 0, vitrine runs as uid 65534"));
  EXPECT_THAT(told, HasSubstr("CAP_SYS_PTRACE"));
}

TEST(Process, NamesTheCapabilityWhenProcHidesIt) {
  const auto hide = [] {
    return ::unshare(CLONE_NEWNS) == 0 &&
           ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           ::mount("proc", "/proc", "proc", 0, "hidepid=2") == 0;
  };
  Subject subject;
  const std::string told = told_to_nobody(subject.child.pid(), hide);
  EXPECT_THAT(told, HasSubstr("not permitted"));
  EXPECT_THAT(told, HasSubstr("hidepid"));
  EXPECT_THAT(told, HasSubstr("CAP_SYS_PTRACE"));
  EXPECT_THAT(told_to_nobody(1 << 30, hide), HasSubstr("no such process"));
}

TEST(Process, NamesDumpabilityWhenTheOwnerIsRefused) {
  test::ChildOptions options;
  options.uid = 65534;
  Subject subject(std::move(options));
  EXPECT_EQ(told_to_nobody(subject.child.pid()), "opened");
  ASSERT_EQ(subject.ask("undumpable"), "done");
  const std::string told = told_to_nobody(subject.child.pid());
  EXPECT_THAT(told, HasSubstr("not dumpable"));
  EXPECT_THAT(told, HasSubstr("CAP_SYS_PTRACE"));
}

}  // namespace
}  // namespace vitrine::target
