// Workers: what they may do, what becomes of those that do what they may not, and what is left.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "sandbox/confinement.hpp"
#include "sandbox/file_opener.hpp"
#include "sandbox/worker.hpp"

namespace vitrine::sandbox {
namespace {

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> found;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    std::ifstream in(task.path() / "children");
    for (pid_t child; in >> child;) found.push_back(child);
  }
  return found;
}

/// Of /proc/PID/status; empty: there is no such process.
std::string status_of(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

Result<std::string> echo(const std::string& text, FileDescriptor file) {
  return text + (file ? " with a file" : "");
}
Result<std::string> refuse(const std::string& text, FileDescriptor) {
  return fail(ErrorCode::malformed, text, "a remedy");
}
Result<std::string> crash(const std::string&, FileDescriptor) {
  volatile int* nowhere = nullptr;
  *nowhere = 1;
  return std::string();
}
Result<std::string> stall(const std::string&, FileDescriptor) {
  for (volatile unsigned n = 0;;) n = n + 1;
}
Result<std::string> work_300_ms(const std::string&, FileDescriptor) {
  timespec used{};
  do ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  while (used.tv_sec == 0 && used.tv_nsec < 300'000'000);
  return std::string("done");
}
Result<std::string> sleep_for_ever(const std::string&, FileDescriptor) {
  for (;;) std::this_thread::yield();
}
Result<std::string> eat(const std::string&, FileDescriptor) {
  std::vector<std::vector<char>> all;
  for (;;) all.emplace_back(1U << 20, 'x');
}
Result<std::string> fall(const std::string&, FileDescriptor) {
  throw std::runtime_error("nobody catches this");
}
Result<std::string> say_more_than_it_may(const std::string&, FileDescriptor) {
  const std::uint32_t head[2] = {2 /* an answer */, ~std::uint32_t{0}};
  iovec part{const_cast<std::uint32_t*>(head), sizeof head};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ::sendmsg(3, &message, 0);
  return std::string();
}
Result<std::string> say_what_makes_no_sense(const std::string&, FileDescriptor) {
  const std::uint32_t head[3] = {2 /* an answer */, 4, ~std::uint32_t{0}};
  iovec part{const_cast<std::uint32_t*>(head), sizeof head};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ::sendmsg(3, &message, 0);
  return std::string();
}

/// What a worker that was taken over might want, and what it gets.
Result<std::vector<std::string>> try_everything(const std::string&, FileDescriptor) {
  std::vector<std::string> got;
  const auto tell = [&](const char* what, long result) {
    if (result >= 0) got.emplace_back(what);
  };
  tell("open", ::open("/etc/hostname", O_RDONLY));
  tell("openat", ::openat(AT_FDCWD, "/etc/hostname", O_RDONLY));
  tell("socket", ::socket(AF_INET, SOCK_STREAM, 0));
  tell("pipe", [] {
    int pair[2];
    return ::pipe(pair);
  }());
  tell("fork", ::fork());
  tell("kill", ::kill(1, 0));
  tell("tgkill", ::syscall(SYS_tgkill, ::syscall(SYS_getppid), ::syscall(SYS_getppid), 0));
  tell("prlimit64", ::syscall(SYS_prlimit64, 1, RLIMIT_CPU, nullptr, nullptr));
  tell("execve", ::execl("/bin/true", "true", nullptr));
  tell("unlink", ::unlink("/tmp/nothing"));
  tell("dumpable", ::prctl(PR_SET_DUMPABLE, 1));
  tell("setuid", ::setuid(0));
  tell("chdir", ::chdir("/"));
  // Of what the parent had, its socket alone is there.
  for (int fd = 4; fd < 64; ++fd) {
    char byte;
    if (::read(fd, &byte, 0) == 0) got.push_back("descriptor " + std::to_string(fd));
  }
  return got;
}

Result<std::string> first_line(const std::string& path, FileDescriptor) {
  const FileDescriptor file = ask_for_file(7, path);
  if (!file) return fail(ErrorCode::not_found, "not given");
  char text[64];
  const ssize_t n = ::read(file.get(), text, sizeof text);
  return std::string(text, static_cast<std::size_t>(n));
}

/// But the file opener.
std::vector<pid_t> workers_of(pid_t pid) {
  std::vector<pid_t> found = children_of(pid);
  std::erase(found, FileOpener::of_this_process().pid());
  return found;
}

enum class ForkedBy { itself, opener };

void start_opener(ForkedBy by) {
  if (by == ForkedBy::opener) {
    ASSERT_TRUE(FileOpener::of_this_process().start());
  }
}

class Workers : public testing::TestWithParam<ForkedBy> {
 protected:
  void SetUp() override { start_opener(GetParam()); }
  void TearDown() override { FileOpener::of_this_process().end(); }
  void expect_unharmed() {
    const auto answer = parser_.ask<&echo>("still there", -1);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(*answer, "still there");
  }
  Parser parser_{{64U << 20, std::chrono::seconds(30)}};
};

TEST_P(Workers, AnswerOneAfterTheOther) {
  EXPECT_TRUE(workers_of(::getpid()).empty());  // nothing before the first question
  expect_unharmed();
  const auto first = workers_of(::getpid());
  ASSERT_EQ(first.size(), 1U);
  const FileDescriptor file(::open("/proc/self/exe", O_RDONLY));
  EXPECT_EQ(parser_.ask<&echo>("asked", file.get()).value(), "asked with a file");
  EXPECT_EQ(parser_.ask<&refuse>("it is broken", -1).error(),
            (Error{ErrorCode::malformed, "it is broken", "a remedy"}));
  EXPECT_EQ(workers_of(::getpid()), first);
}

TEST_P(Workers, ThatCrashAreReplaced) {
  const auto answer = parser_.ask<&crash>("", -1);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().message, "its parser crashed (Segmentation fault)");
  expect_unharmed();
  EXPECT_EQ(parser_.ask<&fall>("", -1).error().message, "its parser ended");
  expect_unharmed();
}

TEST_P(Workers, ThatTakeTooLongAreReplaced) {
  parser_.set_limits({64U << 20, std::chrono::milliseconds(500)});
  for (const auto& answer : {parser_.ask<&stall>("", -1), parser_.ask<&sleep_for_ever>("", -1)}) {
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().message, "its parser was stopped: it took longer than 0.5 s");
    EXPECT_EQ(answer.error().code, ErrorCode::limit);
  }
  parser_.set_limits({64U << 20, std::chrono::seconds(30)});
  expect_unharmed();
}

// Nine processes share one CPU: 300 ms of work take about 2.7 s.
TEST_P(Workers, AreNotStoppedBecauseTheMachineIsBusy) {
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  parser_.set_limits({64U << 20, std::chrono::seconds(1)});
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  const auto started = parser_.ask<&echo>("", -1);
  std::vector<pid_t> busy(8);
  for (pid_t& pid : busy) {
    pid = ::fork();
    if (pid == 0) {
      ::alarm(60);
      for (volatile unsigned n = 0;;) n = n + 1;
    }
  }
  EXPECT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
  const auto answer = parser_.ask<&work_300_ms>("", -1);
  for (const pid_t pid : busy) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  ASSERT_TRUE(started) << started.error().message;
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(*answer, "done");
}

TEST_P(Workers, ThatNeedTooMuchMemoryAreReplaced) {
  const auto answer = parser_.ask<&eat>("", -1);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().message, "its parser was stopped: it needed more than 64 MiB");
  expect_unharmed();
}

TEST_P(Workers, ThatLieAreReplaced) {
  for (const auto& answer : {parser_.ask<&say_more_than_it_may>("", -1),
                             parser_.ask<&say_what_makes_no_sense>("", -1)}) {
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().message, "its parser returned an invalid response");
    EXPECT_EQ(answer.error().code, ErrorCode::failed);
    expect_unharmed();
  }
}

// One that was killed while nobody asked it anything is not the next file's fault.
TEST_P(Workers, ThatEndUnaskedAreReplaced) {
  expect_unharmed();
  const auto first = workers_of(::getpid());
  ASSERT_EQ(first.size(), 1U);
  ::kill(first[0], SIGKILL);
  siginfo_t info;
  ::waitid(P_PID, static_cast<id_t>(first[0]), &info, WEXITED | WNOWAIT);
  expect_unharmed();
  EXPECT_NE(workers_of(::getpid()), first);
}

TEST_P(Workers, MayDoNothingButAnswer) {
  const auto got = parser_.ask<&try_everything>("", -1);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(*got, std::vector<std::string>());
}

TEST_P(Workers, GetTheFilesThatTheyAreGiven) {
  std::vector<std::string> asked;
  const Open open = [&](std::uint32_t root, const std::string& path) {
    asked.push_back(std::to_string(root) + path);
    return path == "/yes" ? FileDescriptor(::open("/proc/version", O_RDONLY)) : FileDescriptor();
  };
  EXPECT_EQ(parser_.ask<&first_line>("/yes", -1, open).value().substr(0, 5), "Linux");
  EXPECT_EQ(parser_.ask<&first_line>("/no", -1, open).error().message, "not given");
  EXPECT_EQ(parser_.ask<&first_line>("/yes", -1).error().message, "not given");
  EXPECT_EQ(asked, (std::vector<std::string>{"7/yes", "7/no"}));
  EXPECT_FALSE(ask_for_file(0, "/proc/version"));  // we are no worker
}

TEST_P(Workers, HoldNoRights) {
  expect_unharmed();
  const auto worker = workers_of(::getpid());
  ASSERT_EQ(worker.size(), 1U);
  const std::string status = status_of(worker[0]);
  for (const char* line :
       {"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000",
        "CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "Name:\tvitrine-files"})
    EXPECT_NE(status.find(line), std::string::npos) << line << " is not in\n" << status;
}

/// Whether a process ends; it may be somebody's zombie then.
bool ends(pid_t pid) {
  for (int i = 0; i < 600; ++i) {
    const std::string status = status_of(pid);
    if (status.empty() || status.find("State:\tZ") != std::string::npos) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return false;
}

TEST_P(Workers, EndWithWhoAskedThem) {
  for (const bool busy : {false, true}) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t parent = ::fork();
    if (parent == 0) {
      start_opener(GetParam());
      Parser parser{{64U << 20, std::chrono::seconds(300)}};
      if (!parser.ask<&echo>("", -1)) ::_exit(1);
      const pid_t worker = workers_of(::getpid()).at(0);
      if (::write(pipe[1], &worker, sizeof worker) != sizeof worker) ::_exit(1);
      if (busy) static_cast<void>(parser.ask<&stall>("", -1));
      for (;;) ::pause();
    }
    pid_t worker = 0;
    ASSERT_EQ(::read(pipe[0], &worker, sizeof worker), static_cast<ssize_t>(sizeof worker));
    ASSERT_FALSE(status_of(worker).empty());
    ::kill(parent, SIGKILL);
    ::waitpid(parent, nullptr, 0);
    EXPECT_TRUE(ends(worker)) << (busy ? "busy" : "idle");
    ::close(pipe[0]);
    ::close(pipe[1]);
  }
}

TEST_P(Workers, LeaveNothingBehind) {
  {
    Parser parser;
    ASSERT_TRUE(parser.ask<&echo>("", -1));
    EXPECT_EQ(workers_of(::getpid()).size(), 1U);
  }
  EXPECT_TRUE(workers_of(::getpid()).empty());
  FileOpener::of_this_process().end();
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

INSTANTIATE_TEST_SUITE_P(Forked, Workers, testing::Values(ForkedBy::itself, ForkedBy::opener),
                         [](const auto& which) {
                           return which.param == ForkedBy::itself ? "byItself" : "byTheOpener";
                         });

/// Blocks until a signal ends it.
Child blocked_child() {
  return Child::start(Kind::forked,
                      [] {
                        for (;;) ::pause();
                      })
      .value();
}

/// Ends a child and reaps it, as a host program does that reaps all children.
void reap_as_host(const Child& child) {
  child.kill();
  ASSERT_EQ(::waitpid(child.pid(), nullptr, 0), child.pid());
}

// A host program has reaped a child, and the next one that it starts gets the number.
TEST(ChildThatTheHostReaped, IsNotTheNextOneOfItsNumber) {
  Child child = blocked_child();
  reap_as_host(child);
  pid_t number = child.pid();
  clone_args settings{};
  settings.exit_signal = SIGCHLD;
  settings.set_tid = reinterpret_cast<std::uintptr_t>(&number);
  settings.set_tid_size = 1;
  const auto next = static_cast<pid_t>(::syscall(SYS_clone3, &settings, sizeof settings));
  if (next == 0) {
    ::alarm(20);  // where it is waited for
    for (;;) ::pause();
  }
  if (next < 0 && (errno == EPERM || errno == ENOSYS))
    GTEST_SKIP() << "only root may choose the number of a process, and not in qemu-user";
  ASSERT_EQ(next, number);
  EXPECT_EQ(child.wait(std::chrono::seconds(20)), 0);
  EXPECT_FALSE(child);
  EXPECT_EQ(::waitpid(next, nullptr, WNOHANG), 0);  // it goes on, and its status is the host's
  ::kill(next, SIGTERM);
  int status = 0;
  ASSERT_EQ(::waitpid(next, &status, 0), next);
  EXPECT_EQ(status, SIGTERM);
}

TEST(ChildThatTheHostReaped, BeforeItWasKnownIsNone) {
  const Child child = blocked_child();
  reap_as_host(child);
  const int before = Child::alive();
  Child known = Child::adopt(child.pid());
  EXPECT_FALSE(known);
  EXPECT_EQ(Child::alive(), before);
  EXPECT_EQ(known.wait(std::chrono::milliseconds(0)), 0);
}

TEST(Child, HasTheStatusOfWaitpid) {
  const auto status_of_child = [](void (*life)()) {
    return Child::start(Kind::forked, life)->wait(std::chrono::seconds(20));
  };
  EXPECT_EQ(status_of_child([] { ::_exit(7); }), 7 << 8);
  EXPECT_EQ(status_of_child([] { ::kill(::getpid(), SIGKILL); }), SIGKILL);
}

std::uint64_t private_memory(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/smaps_rollup");
  std::uint64_t kilobytes = 0;
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("Private_Dirty:")) kilobytes = std::stoull(line.substr(14));
  return kilobytes << 10;
}

class WorkersOfTheOpener : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(FileOpener::of_this_process().start()); }
  void TearDown() override { FileOpener::of_this_process().end(); }
};

// What a process writes to after it has forked a child is the child's alone.
TEST_F(WorkersOfTheOpener, HaveNothingOfWhatAProcessHasGrownBySince) {
  constexpr std::size_t grown = 64U << 20;
  std::vector<char> memory(grown, 'x');
  Parser parser;
  ASSERT_TRUE(parser.ask<&echo>("", -1));
  const auto workers = workers_of(::getpid());
  ASSERT_EQ(workers.size(), 1U);
  std::ranges::fill(memory, 'y');
  ASSERT_TRUE(parser.ask<&echo>("", -1));
  EXPECT_LT(private_memory(workers[0]), grown / 4);
  EXPECT_GT(private_memory(::getpid()), grown / 2);
}

/// Responds with a text.
class Saying final : public Service {
 public:
  explicit Saying(std::string text) : text_(std::move(text)) {}
  std::vector<std::byte> respond(std::span<const std::byte>, FileDescriptor) override {
    return pack::pack(text_);
  }

 private:
  std::string text_;
};

std::string said_by(Worker& worker) {
  const auto response = worker.ask({}, -1, response_bytes, {});
  if (!response) return response.error().message;
  return pack::unpack<std::string>(*response).value_or("invalid");
}

// A text that is made here is there in the processes alone that this one forks.
std::string* made_since = nullptr;

TEST_F(WorkersOfTheOpener, AreNotThoseThatNeedWhatTheCallerHas) {
  std::string text = "made since";
  made_since = &text;
  auto own = Worker::start("test", {}, [&] { return std::make_unique<Saying>(text); });
  ASSERT_TRUE(own);
  EXPECT_EQ(said_by(*own), text);
  const auto knows = []() -> std::unique_ptr<Service> {
    return std::make_unique<Saying>(made_since == nullptr ? "nothing" : *made_since);
  };
  auto alone = Worker::start_alone("test", {}, knows);
  ASSERT_TRUE(alone);
  EXPECT_EQ(said_by(*alone), "nothing");
  FileOpener::of_this_process().end();
  auto without_opener = Worker::start_alone("test", {}, knows);
  ASSERT_TRUE(without_opener);
  EXPECT_EQ(said_by(*without_opener), text);
  made_since = nullptr;
}

}  // namespace
}  // namespace vitrine::sandbox
