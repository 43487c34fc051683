// Memory that never comes, and the memory reader that waits for it in our place: whatever becomes of either.
#include "target/memory_reader.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "sandbox/capabilities.hpp"
#include "target/proc_file.hpp"
#include "target/process.hpp"
#include "target_subject.hpp"

namespace vitrine::target {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t page_bytes = 4096;

/// Reads a page that `memory` of the subject made.
bool reads(Process& process, Address page) {
  std::vector<std::byte> bytes(page_bytes);
  if (process.memory().read_some(page, bytes) != bytes.size()) return false;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != static_cast<std::byte>(i)) return false;
  return true;
}

FileDescriptor handle_of(pid_t pid) {
  return FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

bool ends(const FileDescriptor& handle) {
  pollfd end{handle.get(), POLLIN, 0};
  return ::poll(&end, 1, 60'000) == 1;
}

class MemoryReaderTest : public testing::Test {
 protected:
  Address withhold(std::size_t pages) {
    const std::string answer = subject.ask("withheld " + std::to_string(pages));
    EXPECT_NE(answer, "no") << "the tests run as root, who may have a userfaultfd";
    return answer == "no" ? 0 : std::stoull(answer, nullptr, 16);
  }

  Subject subject;
  Address page = std::stoull(subject.ask("memory"), nullptr, 16);
  Process process = *Process::open(subject.child.pid());
};

TEST_F(MemoryReaderTest, APageThatNeverComesIsUnreadable) {
  const Address at = withhold(1);
  ASSERT_NE(at, 0U);
  std::byte byte{};
  EXPECT_EQ(process.memory().withheld(), "");
  EXPECT_EQ(process.memory().read_some(at + 8, {&byte, 1}), 0U);
  EXPECT_TRUE(process.memory().gave_up());
  EXPECT_EQ(process.memory().withheld(),
            "memory of process " + std::to_string(subject.child.pid()) +
                " is blocked by a userfaultfd or a user-space file system (the first at " +
                hex(at + 8) + ")");
  EXPECT_EQ(process.memory().refusal(), 0);
  EXPECT_TRUE(reads(process, page));
  EXPECT_FALSE(process.memory().gave_up());
  EXPECT_TRUE(process.verify());
}

TEST_F(MemoryReaderTest, WhatIsBeforeItAndAfterItIsRead) {
  const Address at = withhold(1);
  ASSERT_NE(at, 0U);
  std::vector<std::byte> bytes(2 * page_bytes);
  std::uint64_t words[3] = {};
  ReadRequest requests[] = {{page, std::as_writable_bytes(std::span(&words[0], 1)), 0},
                            {at - page_bytes, bytes, 0},
                            {at, std::as_writable_bytes(std::span(&words[1], 1)), 0},
                            {page + 8, std::as_writable_bytes(std::span(&words[2], 1)), 0}};
  process.memory().read(requests);
  EXPECT_EQ(requests[0].got, 8U);
  EXPECT_EQ(requests[1].got, page_bytes);
  EXPECT_EQ(bytes[page_bytes - 1], std::byte{0xff});
  EXPECT_EQ(requests[2].got, 0U);
  EXPECT_EQ(requests[3].got, 8U);
  EXPECT_EQ(words[2], 0x0f0e0d0c0b0a0908U);
}

// One after the other and in one read: each would be waited for by itself, were there no end to
// our budget.
TEST_F(MemoryReaderTest, AThousandOfThemAreNotWaitedForOneByOne) {
  constexpr std::size_t count = 1000;
  const Address at = withhold(count);
  ASSERT_NE(at, 0U);
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::byte> bytes(count, std::byte{1});
  std::vector<ReadRequest> requests;
  for (std::size_t i = 0; i < count; ++i) {
    std::byte byte{};
    EXPECT_EQ(process.memory().read_some(at + i * page_bytes, {&byte, 1}), 0U);
    requests.push_back({at + i * page_bytes, {&bytes[i], 1}, 1});
  }
  process.memory().read(requests);
  for (const ReadRequest& request : requests) EXPECT_EQ(request.got, 0U);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 120s);  // 2,000 waits of 0.5 s are 1,000 s
}

TEST_F(MemoryReaderTest, WhatComesAtLastIsRead) {
  const Address at = withhold(1);
  ASSERT_NE(at, 0U);
  std::uint64_t word = 1;
  EXPECT_EQ(process.memory().read_some(at, std::as_writable_bytes(std::span(&word, 1))), 0U);
  ASSERT_EQ(subject.ask("serve"), "served");
  EXPECT_EQ(process.memory().read_some(at, std::as_writable_bytes(std::span(&word, 1))), 8U);
  EXPECT_EQ(word, 0U);
}

TEST_F(MemoryReaderTest, OneThatIsKilledIsReplaced) {
  ASSERT_TRUE(reads(process, page));
  const pid_t first = MemoryReader::of_this_thread().pid();
  ASSERT_GT(first, 0);
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  EXPECT_TRUE(reads(process, page));
  EXPECT_NE(MemoryReader::of_this_thread().pid(), first);
  EXPECT_EQ(process.memory().withheld(), "");
}

TEST_F(MemoryReaderTest, OneThatIsStoppedIsReplaced) {
  ASSERT_TRUE(reads(process, page));
  const pid_t first = MemoryReader::of_this_thread().pid();
  ASSERT_EQ(::kill(first, SIGSTOP), 0);
  EXPECT_TRUE(reads(process, page));
  EXPECT_NE(MemoryReader::of_this_thread().pid(), first);
}

// Also while it waits for a page.
TEST_F(MemoryReaderTest, EndsWithAParentThatIsKilled) {
  const Address at = withhold(1);
  ASSERT_NE(at, 0U);
  for (const Address reads_then : {Address{0}, at}) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t parent = ::fork();
    if (parent == 0) {
      const bool read = reads(process, page);
      const pid_t pid = read ? MemoryReader::of_this_thread().pid() : -1;
      if (::write(pipe[1], &pid, sizeof pid) != sizeof pid) ::_exit(1);
      std::byte byte{};
      if (reads_then != 0) process.memory().read_some(reads_then, {&byte, 1});
      for (;;) ::pause();
    }
    pid_t reader = -1;
    ASSERT_EQ(::read(pipe[0], &reader, sizeof reader), static_cast<ssize_t>(sizeof reader));
    ASSERT_GT(reader, 0);
    const FileDescriptor handle = handle_of(reader);
    ::kill(parent, SIGKILL);
    if (handle) {
      EXPECT_TRUE(ends(handle));
    } else {
      EXPECT_NE(reads_then, 0U) << "only who waits for a page is replaced";
    }
    EXPECT_EQ(::waitpid(parent, nullptr, 0), parent);
    ::close(pipe[0]);
    ::close(pipe[1]);
  }
}

TEST_F(MemoryReaderTest, EndsWhenItsParentExecutesAnotherProgram) {
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    const bool read = reads(process, page);
    const pid_t pid = read ? MemoryReader::of_this_thread().pid() : -1;
    if (::write(pipe[1], &pid, sizeof pid) != sizeof pid) ::_exit(1);
    ::raise(SIGSTOP);  // until its reader is held
    ::execlp("sleep", "sleep", "600", nullptr);
    ::_exit(1);
  }
  pid_t reader = -1;
  ASSERT_EQ(::read(pipe[0], &reader, sizeof reader), static_cast<ssize_t>(sizeof reader));
  ASSERT_GT(reader, 0);
  const FileDescriptor handle = handle_of(reader);
  ASSERT_TRUE(handle);
  int status = 0;
  ASSERT_EQ(::waitpid(parent, &status, WUNTRACED), parent);
  ASSERT_TRUE(WIFSTOPPED(status));
  ::kill(parent, SIGCONT);
  EXPECT_TRUE(ends(handle));
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST_F(MemoryReaderTest, AForkOfUsHasItsOwn) {
  ASSERT_TRUE(reads(process, page));
  const pid_t ours = MemoryReader::of_this_thread().pid();
  const pid_t fork = ::fork();
  if (fork == 0)
    ::_exit(reads(process, page) && MemoryReader::of_this_thread().pid() != ours ? 0 : 1);
  EXPECT_TRUE(reads(process, page));
  int status = -1;
  ASSERT_EQ(::waitpid(fork, &status, 0), fork);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(reads(process, page));
  EXPECT_EQ(MemoryReader::of_this_thread().pid(), ours);
}

TEST_F(MemoryReaderTest, EachThreadThatReadsHasItsOwnAndItEndsWithIt) {
  constexpr int count = 4;
  std::atomic<int> wrong = 0;
  pid_t pids[count] = {};
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      Process own = *Process::open(subject.child.pid());
      for (int round = 0; round < 500; ++round)
        if (!reads(own, page)) ++wrong;
      pids[i] = MemoryReader::of_this_thread().pid();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  for (int i = 0; i < count; ++i)
    for (int j = 0; j < i; ++j) EXPECT_NE(pids[i], pids[j]);
  for (const pid_t pid : pids) {
    EXPECT_GT(pid, 0);
    EXPECT_EQ(::waitpid(pid, nullptr, __WALL | WNOHANG), -1) << "it is still our child";
  }
}

// Who has capabilities may read whom has the same ones, and a memory reader of his, which has none of them,
// may not. (As where Yama lets us read what we have started.)
TEST(MemoryReaderRights, WhatItMayNotReadItReadsByAFileThatWeMayOpen) {
  const pid_t fork = ::fork();
  if (fork == 0) {
    const auto rest = sandbox::effective_capabilities().without({CAP_SYS_PTRACE});
    if (rest.empty() || !sandbox::keep_only(rest)) ::_exit(2);
    Subject subject;
    const Address page = std::stoull(subject.ask("memory"), nullptr, 16);
    auto process = Process::open(subject.child.pid());
    const bool read = process && reads(*process, page);
    ::_exit(read && MemoryReader::of_this_thread().pid() > 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(fork, &status, 0), fork);
  EXPECT_EQ(status, 0);
}

std::atomic<int> children_ended = 0;

TEST_F(MemoryReaderTest, IsNoChildThatItsHostWouldNotice) {
  const struct sigaction count {
    {[](int) { ++children_ended; }}, {}, 0, nullptr
  };
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGCHLD, &count, &before), 0);
  ASSERT_TRUE(reads(process, page));
  const FileDescriptor handle = handle_of(MemoryReader::of_this_thread().pid());
  ASSERT_EQ(::kill(MemoryReader::of_this_thread().pid(), SIGKILL), 0);
  ASSERT_TRUE(ends(handle));
  siginfo_t ended{};
  EXPECT_EQ(::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT), 0);
  EXPECT_EQ(ended.si_pid, 0);
  EXPECT_TRUE(reads(process, page));
  EXPECT_EQ(children_ended, 0);
  ::sigaction(SIGCHLD, &before, nullptr);
}

TEST_F(MemoryReaderTest, HasNothingThatItDoesNotNeed) {
  ASSERT_TRUE(reads(process, page));
  const std::string path = "/proc/" + std::to_string(MemoryReader::of_this_thread().pid());
  const auto text = read_file_at(AT_FDCWD, path + "/status", 16 * 1024);
  ASSERT_TRUE(text);
  const auto field = [&](const char* name) {
    const auto found = status_field(*text, name);
    return found ? std::string(found->substr(0, found->find('\n'))) : std::string();
  };
  EXPECT_EQ(field("Name"), "vitrine-reader");
  EXPECT_EQ(field("NoNewPrivs"), "1");
  EXPECT_EQ(field("Seccomp"), "2");
  // The second one opens the auxiliary vectors of other users' processes.
  constexpr std::uint64_t needed = 1ULL << CAP_SYS_PTRACE | 1ULL << CAP_DAC_READ_SEARCH;
  EXPECT_EQ(std::stoull(field("CapEff"), nullptr, 16) & ~needed, 0U);
  EXPECT_EQ(std::stoull(field("CapPrm"), nullptr, 16) & ~needed, 0U);
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(path + "/fd"))
    ++files;
  EXPECT_EQ(files, 4U) << "nothing on 0 to 2, and a socket";
}

}  // namespace
}  // namespace vitrine::target
