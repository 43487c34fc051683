#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "sandbox/files.hpp"
#include "usdt/object/workshop.hpp"

namespace vitrine::usdt {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class Staged : public testing::Test {
 protected:
  void SetUp() override { std::ofstream(old_) << "old"; }

  static std::string content(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::size_t files() const {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator(shop_.path(""))) ++count;
    return count;
  }

  test::Workshop shop_;
  std::string old_ = shop_.path("old"), none_ = shop_.path("none");
};

TEST_F(Staged, ChangesNothingUntilPutInPlace) {
  {
    const auto staged = sandbox::StagedFile::write(old_, bytes("new"));
    ASSERT_TRUE(staged);
    EXPECT_EQ(content(old_), "old");
    EXPECT_EQ(files(), 2U);
  }
  EXPECT_EQ(content(old_), "old");
  EXPECT_EQ(files(), 1U);
}

TEST_F(Staged, PutInPlaceAndBack) {
  {
    auto changed = sandbox::StagedFile::write(old_, bytes("new"));
    auto created = sandbox::StagedFile::write(none_, bytes("first"));
    ASSERT_TRUE(changed && created);
    ASSERT_TRUE(changed->put_in_place());
    ASSERT_TRUE(created->put_in_place());
    EXPECT_EQ(content(old_), "new");
    EXPECT_EQ(content(none_), "first");
    created->put_back();
    changed->put_back();
    EXPECT_EQ(content(old_), "old");
  }
  EXPECT_FALSE(fs::exists(none_));
  EXPECT_EQ(files(), 1U);
  {
    auto changed = sandbox::StagedFile::write(old_, bytes("new"));
    ASSERT_TRUE(changed && changed->put_in_place());
  }
  EXPECT_EQ(content(old_), "new");
  EXPECT_EQ(files(), 1U);
}

TEST_F(Staged, ANewFileHasTheModeOfTheUmaskWhichNobodyChanges) {
  const mode_t before = ::umask(027);
  std::atomic<bool> over{false};
  std::atomic<int> changed{0};
  std::thread other([&] {  // /proc has the umask of the process without touching it
    while (!over) {
      std::ifstream status("/proc/self/status");
      for (std::string line; std::getline(status, line);)
        if (line.starts_with("Umask:") && line.find("0027") == std::string::npos) ++changed;
    }
  });
  for (int i = 0; i < 2000; ++i)
    EXPECT_TRUE(sandbox::StagedFile::write(none_, std::span<const std::byte>()));
  over = true;
  other.join();
  auto created = sandbox::StagedFile::write(none_, bytes("first"));
  EXPECT_TRUE(created && created->put_in_place());
  ::umask(before);
  EXPECT_EQ(changed, 0);
  EXPECT_EQ(fs::status(none_).permissions(), fs::perms{0640});
}

TEST_F(Staged, SaysWhatCannotBeWritten) {
  const auto nowhere = sandbox::StagedFile::write(shop_.path("no/such/file"), bytes("new"));
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, ErrorCode::not_found);
  EXPECT_THAT(nowhere.error().message, testing::HasSubstr("no/such/file"));
  EXPECT_FALSE(sandbox::StagedFile::write(shop_.path(""), bytes("new")));
  EXPECT_EQ(files(), 1U);
}

using sandbox::StagedFile;

/// A directory as /tmp is: everybody may make files, and remove their own.
class SharedDirectory : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::geteuid(), 0U) << "needs root: it plays another user";
    std::string place = "/tmp/vitrine_shared.XXXXXX";
    ASSERT_NE(::mkdtemp(place.data()), nullptr);
    directory_ = place;
    ASSERT_EQ(::chmod(place.c_str(), 01777), 0);
  }
  void TearDown() override { fs::remove_all(directory_); }

  static struct stat status_of(const std::string& path) {
    struct stat status {};
    EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
    return status;
  }

  void put(const std::string& path, uid_t owner, mode_t mode) const {
    std::ofstream(path) << "old";
    ASSERT_EQ(::chown(path.c_str(), owner, owner), 0);
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
  }

  static void expect(const std::string& path, uid_t owner, mode_t mode) {
    const struct stat status = status_of(path);
    EXPECT_TRUE(S_ISREG(status.st_mode)) << path;
    EXPECT_EQ(status.st_uid, owner) << path;
    EXPECT_EQ(status.st_mode & 07777, mode) << path;
  }

  static Result<void> write(const std::string& path) {
    auto staged =
        StagedFile::write(path, bytes("new"), StagedFile::Time::now, StagedFile::Access::owner);
    if (!staged) return tl::unexpected(staged.error());
    return staged->put_in_place();
  }

  static constexpr uid_t another_ = 65534;
  fs::path directory_;
};

TEST_F(SharedDirectory, OnlyAFileOfOnesOwnPassesOnItsMode) {
  put(directory_ / "theirs", another_, 0666);
  ASSERT_TRUE(write(directory_ / "theirs"));
  expect(directory_ / "theirs", 0, 0600);
  put(directory_ / "ours", 0, 0644);
  ASSERT_TRUE(write(directory_ / "ours"));
  expect(directory_ / "ours", 0, 0644);
  fs::create_hard_link(directory_ / "ours", directory_ / "linked");
  ASSERT_TRUE(write(directory_ / "linked"));
  expect(directory_ / "linked", 0, 0600);
  expect(directory_ / "ours", 0, 0644);
}

TEST_F(SharedDirectory, InADirectoryOfTheirOwnUsersKeepTheirFiles) {
  const fs::path own = directory_ / "own";
  fs::create_directory(own);
  ASSERT_EQ(::chown(own.c_str(), another_, another_), 0);
  put(own / "file", another_, 0640);
  ASSERT_TRUE(write(own / "file"));
  expect(own / "file", another_, 0640);
  ASSERT_EQ(::chown(own.c_str(), another_ - 1, another_ - 1), 0);  // a third user's
  ASSERT_TRUE(write(own / "file"));
  expect(own / "file", 0, 0600);
}

TEST_F(SharedDirectory, OnlyLinksOfOnesOwnAreFollowed) {
  fs::create_directory(directory_ / "place");
  put(directory_ / "place" / "file", 0, 0644);
  fs::create_symlink("place/file", directory_ / "ours");
  ASSERT_TRUE(write(directory_ / "ours"));
  EXPECT_TRUE(fs::is_symlink(directory_ / "ours"));
  EXPECT_EQ(fs::file_size(directory_ / "place" / "file"), 3U);
  fs::create_symlink("place/file", directory_ / "theirs");
  ASSERT_EQ(::lchown((directory_ / "theirs").c_str(), another_, another_), 0);
  const auto refused = write(directory_ / "theirs");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::not_permitted);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("a symbolic link of another user"));
}

TEST_F(SharedDirectory, WhatIsNoFileIsNotReplaced) {
  const std::string pipe = directory_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0666), 0);
  ASSERT_EQ(::chown(pipe.c_str(), another_, another_), 0);
  EXPECT_FALSE(write(pipe));
  EXPECT_TRUE(S_ISFIFO(status_of(pipe).st_mode));
  const auto refused = sandbox::write_whole(pipe, "new");  // and does not wait for a reader
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("a pipe of another user"));
}

/// Puts a file for everybody, a link and nothing at `path`, in turn, until it is killed.
[[noreturn]] void race_for(const std::string& path, uid_t user) {
  if (::setgroups(0, nullptr) != 0 || ::setgid(user) != 0 || ::setuid(user) != 0) ::_exit(1);
  ::umask(0);
  for (;;) {
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0) ::close(file);
    ::unlink(path.c_str());
    (void)!::symlink("/etc/hostname", path.c_str());
    ::unlink(path.c_str());
  }
}

TEST_F(SharedDirectory, NoRaceGivesTheFileAway) {
  const std::string path = directory_ / "profile";
  const pid_t attacker = ::fork();
  if (attacker == 0) race_for(path, another_);
  int written = 0, given_away = 0, readable = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  for (int i = 0; i < 2000 || std::chrono::steady_clock::now() < end; ++i) {
    if (!write(path)) continue;
    ++written;
    const struct stat status = status_of(path);
    given_away += !S_ISREG(status.st_mode) || status.st_uid != 0;
    readable += (status.st_mode & 077) != 0;
    ::unlink(path.c_str());
  }
  EXPECT_EQ(::waitpid(attacker, nullptr, WNOHANG), 0) << "the attacker has ended";
  ::kill(attacker, SIGKILL);
  ::waitpid(attacker, nullptr, 0);
  EXPECT_GT(written, 0);
  EXPECT_EQ(given_away, 0) << "of " << written;
  EXPECT_EQ(readable, 0) << "of " << written;
}

}  // namespace
}  // namespace vitrine::usdt
