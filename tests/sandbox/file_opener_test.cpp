// Files whose server stops answering: they are told of, and all others are opened.
#include "sandbox/file_opener.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "sandbox/capabilities.hpp"
#include "sandbox/child.hpp"
#include "sandbox/files.hpp"
#include "sandbox/mounts.hpp"
#include "sandbox/place.hpp"
#include "support/served_file.h"

namespace vitrine::sandbox {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

/// More than a chunk of a copy.
constexpr std::size_t content_bytes = (3U << 20) + 5;

std::string content() {
  std::string bytes(content_bytes, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 + i / 4096);
  return bytes;
}

class ServedFile : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_EQ(::unshare(CLONE_NEWNS), 0) << "the tests run as root";
    ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  }

  void SetUp() override {
    std::ofstream(place / "content", std::ios::binary) << content();
    std::filesystem::create_directory(place / "mount");
    server = ::serve_file((place / "mount").c_str(), "file", (place / "content").c_str());
    ASSERT_GT(server, 0) << "this kernel has no /dev/fuse: errno " << -server;
    std::this_thread::sleep_for(600ms);  // for what is known of the mounts
  }

  /// At its end, who waits for an answer gets an error.
  void TearDown() override {
    if (server > 0) {
      ::kill(server, SIGKILL);
      ::waitpid(server, nullptr, 0);
    }
    ::umount2((place / "mount").c_str(), MNT_DETACH);
  }

  void stop(int how) const {
    ASSERT_EQ(::kill(server, how), 0);
    std::this_thread::sleep_for(50ms);
  }

  [[nodiscard]] static std::string read(OpenedFile file) {
    const auto memory = FileMemory::from(std::move(file)).value();
    std::string bytes(content_bytes, '\0');
    bytes.resize(memory->read_some(0, std::as_writable_bytes(std::span(bytes))));
    return bytes;
  }

  void expect_told(const Result<OpenedFile>& opened) const {
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ErrorCode::limit);
    EXPECT_THAT(opened.error().message, HasSubstr("its file system does not respond"));
  }

  void expect_others() const {
    const auto begin = Clock::now();
    EXPECT_TRUE(open_regular_at(AT_FDCWD, place / "content"));
    EXPECT_LT(Clock::now() - begin, 5s);
  }

  const Place place;
  const std::string path = place / "mount/file";
  pid_t server = 0;
};

TEST_F(ServedFile, IsCopied) {
  auto opened = open_regular_at(AT_FDCWD, path);
  ASSERT_TRUE(opened) << opened.error().message;
  ASSERT_TRUE(opened->original);
  EXPECT_EQ(
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(opened->original.get())),
      path);
  EXPECT_LT(::pwrite(opened->get(), "x", 1, 0), 0) << "it is sealed";
  stop(SERVED_STOP);
  EXPECT_TRUE(read(std::move(*opened)) == content());
}

TEST_F(ServedFile, IsCopiedByItsHandle) {
  const FileDescriptor handle(::open(path.c_str(), O_PATH | O_CLOEXEC));
  const auto dir = open_at(AT_FDCWD, "/proc/self/fd", O_PATH | O_DIRECTORY).value();
  EXPECT_FALSE(responds(handle.get()));
  auto opened = open_regular_at(dir.get(), std::to_string(handle.get()));
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_TRUE(opened->original);
  EXPECT_TRUE(read(std::move(*opened)) == content());
}

TEST_F(ServedFile, OnALocalFileSystemIsOpenedItself) {
  const FileDescriptor handle(::open((place / "content").c_str(), O_PATH | O_CLOEXEC));
  EXPECT_TRUE(responds(handle.get()));
  EXPECT_FALSE(all_respond(AT_FDCWD)) << "a path may lead to the mount";
  auto opened = open_regular_at(AT_FDCWD, place / "content");
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_FALSE(opened->original);
  EXPECT_TRUE(read(std::move(*opened)) == content());
}

TEST_F(ServedFile, IsCopiedThoughOthersAreAskedForAtOnce) {
  const FileDescriptor served(::open(path.c_str(), O_PATH | O_CLOEXEC));
  const FileDescriptor local(::open((place / "content").c_str(), O_PATH | O_CLOEXEC));
  const auto dir = open_at(AT_FDCWD, "/proc/self/fd", O_PATH | O_DIRECTORY).value();
  const std::vector<std::string> links{std::to_string(local.get()), "1000000",
                                       std::to_string(served.get()), std::to_string(local.get())};
  auto opened = open_regular_links(dir.get(), links);
  ASSERT_EQ(opened.size(), 4u);
  for (const std::size_t i : {0, 2, 3}) {
    ASSERT_TRUE(opened[i]) << i << ": " << opened[i].error().message;
    EXPECT_EQ(static_cast<bool>(opened[i]->original), i == 2) << i;
    EXPECT_TRUE(read(std::move(*opened[i])) == content()) << i;
  }
  ASSERT_FALSE(opened[1]);
  EXPECT_EQ(opened[1].error().code, ErrorCode::not_found);
}

TEST_F(ServedFile, ThatIsNotServedIsTold) {
  stop(SERVED_STOP);
  auto begin = Clock::now();
  expect_told(open_regular_at(AT_FDCWD, path));
  EXPECT_LT(Clock::now() - begin, 10s);
  expect_others();
}

TEST_F(ServedFile, ThatIsNotServedIsAskedForOnce) {
  const FileDescriptor handle(::open(path.c_str(), O_PATH | O_CLOEXEC));
  const auto dir = open_at(AT_FDCWD, "/proc/self/fd", O_PATH | O_DIRECTORY).value();
  stop(SERVED_STOP);
  const auto begin = Clock::now();
  for (int i = 0; i < 20; ++i)
    expect_told(open_regular_at(dir.get(), std::to_string(handle.get())));
  EXPECT_LT(Clock::now() - begin, 10s);
  expect_others();
}

TEST_F(ServedFile, IsExaminedUnopened) {
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  const auto examined = path_status(path);
  ASSERT_TRUE(examined) << examined.error().message;
  EXPECT_EQ(examined->identity.device, status.st_dev);
  EXPECT_EQ(examined->identity.inode, status.st_ino);
  EXPECT_EQ(examined->identity.size, status.st_size);
  EXPECT_EQ(examined->mode, status.st_mode);
  EXPECT_EQ(path_status(place / "mount/other").error().code, ErrorCode::not_found);
  EXPECT_TRUE(S_ISDIR(path_status(place / "mount").value().mode));
}

TEST_F(ServedFile, ThatIsNotServedIsNotExamined) {
  stop(SERVED_STOP);
  const auto begin = Clock::now();
  EXPECT_EQ(path_status(path).error().code, ErrorCode::limit);
  EXPECT_LT(Clock::now() - begin, 10s);
  expect_others();
}

TEST_F(ServedFile, WhoseReadsDoNotEndIsTold) {
  stop(SERVED_STOP_READS);
  const auto begin = Clock::now();
  expect_told(open_regular_at(AT_FDCWD, path));
  EXPECT_LT(Clock::now() - begin, 10s);
  expect_others();
}

TEST_F(ServedFile, DoesNotHoldUpTheEndOfAChildThatWaitsForIt) {
  stop(SERVED_STOP);
  auto child =
      Child::start(Kind::quiet, [&] { ::open(path.c_str(), O_RDONLY | O_CLOEXEC); }).value();
  std::this_thread::sleep_for(200ms);
  const pid_t pid = child.pid();
  const auto begin = Clock::now();
  child.end();
  EXPECT_LT(Clock::now() - begin, 10s);
  EXPECT_FALSE(child);
  EXPECT_EQ(::kill(pid, 0), 0) << "it is still there: nothing ends its system call";
}

TEST(OpenerOfFiles, HasNoRightsButThoseByWhichFilesOfProcessesAreOpened) {
  constexpr Capabilities wanted{CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_CHECKPOINT_RESTORE};
  const Capabilities held = effective_capabilities();
  ASSERT_FALSE(wanted.has_all(held)) << "the tests run as root";
  FileOpener opener;
  const Place place;
  std::ofstream(place / "file") << "content";
  ASSERT_TRUE(opener.open({Named::at, AT_FDCWD, place / "file"}));  // it has begun
  std::ifstream status("/proc/" + std::to_string(opener.pid()) + "/status");
  std::map<std::string, std::string> fields;
  for (std::string name, value; status >> name && std::getline(status >> std::ws, value);)
    fields[name] = value;
  for (const char* set : {"CapInh:", "CapPrm:", "CapEff:", "CapAmb:"}) {
    ASSERT_FALSE(fields[set].empty()) << set;
    const auto kept = Capabilities::of_bits(std::stoull(fields[set], nullptr, 16));
    EXPECT_TRUE(wanted.has_all(kept)) << set << kept.text();
  }
  EXPECT_EQ(Capabilities::of_bits(std::stoull(fields["CapEff:"], nullptr, 16)), wanted & held);
  EXPECT_EQ(fields["NoNewPrivs:"], "1");
  opener.end();
}

/// The fork is refused, or has its worker.
bool forks(FileOpener& opener) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return false;
  const FileDescriptor own_end(pair[0]), its(pair[1]);
  return opener.fork_worker({}, its.get()).has_value();
}

TEST(OpenerOfFiles, ForksWhereTheFirstThreadHasBegunIt) {
  FileOpener opener;
  EXPECT_FALSE(forks(opener));
  ASSERT_TRUE(opener.start());
  EXPECT_TRUE(forks(opener));
  bool forked = false;
  std::thread([&] { forked = forks(opener); }).join();
  EXPECT_TRUE(forked) << "whatever thread asks";
  opener.end();
  EXPECT_FALSE(forks(opener));
}

// What it forked would end with that thread.
TEST(OpenerOfFiles, DoesNotForkWhereAnotherThreadHasBegunIt) {
  FileOpener opener;
  std::thread([&] {
    ASSERT_TRUE(opener.start());
    EXPECT_LT(opener.pid(), 0);
    EXPECT_FALSE(forks(opener));
  }).join();
  ASSERT_TRUE(opener.start());
  ASSERT_EQ(::kill(opener.pid(), SIGKILL), 0);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(opener.pid()), &ended, WEXITED | WNOWAIT), 0);
  const Place place;
  std::ofstream(place / "file") << "content";
  std::thread([&] {
    ASSERT_TRUE(opener.open({Named::at, AT_FDCWD, place / "file"}));
    EXPECT_GT(opener.pid(), 0) << "it has been begun anew";
    EXPECT_FALSE(forks(opener));
  }).join();
  ASSERT_TRUE(opener.start());
  EXPECT_TRUE(forks(opener)) << "of the first thread again";
  opener.end();
}

}  // namespace
}  // namespace vitrine::sandbox
