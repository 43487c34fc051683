// Opening what others name: nothing but regular files, nothing outside of a root, and never waiting.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>

#include "sandbox/files.hpp"
#include "sandbox/place.hpp"

namespace vitrine::sandbox {
namespace {

using testing::HasSubstr;

FileDescriptor open_directory(const std::string& path) {
  return FileDescriptor(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/// By the three ways in which files of others are opened.
void expect_refused(const std::string& path, const std::string& why) {
  const FileDescriptor root = open_directory("/");
  for (const auto& opened : {open_regular_at(AT_FDCWD, path), open_regular_below(root.get(), path),
                             open_owned_below(root.get(), path, ::geteuid())}) {
    ASSERT_FALSE(opened) << path;
    EXPECT_EQ(opened.error().code, ErrorCode::unsupported) << opened.error().message;
    EXPECT_THAT(opened.error().message, HasSubstr(path));
    EXPECT_THAT(opened.error().message, HasSubstr(why));
  }
}

TEST(RegularFile, NothingElseIsOpened) {
  const Place place;
  ASSERT_EQ(::mkfifo((place / "pipe").c_str(), 0666), 0);
  expect_refused(place / "pipe", "is a pipe");  // whose other end nobody opens

  const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = place / "socket";
  ASSERT_LT(path.size(), sizeof address.sun_path);
  path.copy(address.sun_path, path.size());
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  expect_refused(path, "is a socket");

  expect_refused(place.path(), "is a directory");
  for (const char* device : {"/dev/zero", "/dev/null", "/dev/random", "/dev/full"})
    expect_refused(device, "is a device");
}

TEST(RegularFile, ATerminalDoesNotBecomeOurs) {
  const FileDescriptor terminal(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  ASSERT_TRUE(terminal);
  ASSERT_EQ(::unlockpt(terminal.get()), 0);
  std::array<char, 64> name{};
  ASSERT_EQ(::ptsname_r(terminal.get(), name.data(), name.size()), 0);
  expect_refused(name.data(), "is a device");
}

TEST(RegularFile, LinksThatGoRoundEnd) {
  const Place place;
  std::filesystem::create_symlink(place / "two", place / "one");
  std::filesystem::create_symlink(place / "one", place / "two");
  const auto opened = open_regular_at(AT_FDCWD, place / "one");
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("Too many levels"));
  EXPECT_FALSE(open_regular_below(open_directory("/").get(), place / "one"));
}

TEST(RegularFile, FilesOfTheKernelThatHaveNoEndAreNoMoreThanAsked) {
  for (const char* path : {"/proc/self/mem", "/proc/kallsyms", "/proc/self/maps"})
    EXPECT_TRUE(open_regular_at(AT_FDCWD, path)) << path;
}

// ---- what a root does not let out --------------------------------------------------------------

class Root : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(place_ / "root/tmp");
    place_.write("outside", "secret");
    place_.write("root/inside", "plain");
    root_ = open_directory(place_ / "root");
    ASSERT_TRUE(root_);
  }
  void link(const std::string& to, const std::string& name) const {
    std::filesystem::create_symlink(to, place_ / ("root/" + name));
  }
  [[nodiscard]] Result<FileDescriptor> open(const std::string& path) const {
    return open_regular_below(root_.get(), path);
  }

  Place place_;
  FileDescriptor root_;
};

TEST_F(Root, LinksLeadToWhatIsInItAlone) {
  link(place_ / "outside", "absolute");
  link("../outside", "upwards");
  link("../../../../../../../etc/passwd", "far");
  link("/inside", "good");
  std::filesystem::create_directory_symlink("..", place_ / "root/directory");
  for (const char* path : {"/absolute", "/upwards", "/far", "/directory/outside", "/../outside",
                           "/tmp/../../outside"}) {
    const auto opened = open(path);
    ASSERT_FALSE(opened) << path;
    EXPECT_EQ(opened.error().code, ErrorCode::not_found) << opened.error().message;
  }
  EXPECT_TRUE(open("/good"));
  EXPECT_TRUE(open("/tmp/../../../inside"));  // as in a chroot, where / is above itself
}

/// A link of /proc leads to where its process is, not to what its text says.
TEST_F(Root, LinksOfProcAreNotFollowed) {
  const FileDescriptor root = open_directory("/");
  for (const std::string path : {"/proc/self/exe", "/proc/self/root/etc/passwd"}) {
    EXPECT_FALSE(open_regular_below(root.get(), path)) << path;
    std::filesystem::remove(place_ / "link");
    std::filesystem::create_symlink(path, place_ / "link");
    EXPECT_FALSE(open_regular_below(root.get(), place_ / "link")) << path;
  }
}

TEST_F(Root, AnOwnedFileIsNoLinkAndBelongsToItsOwner) {
  link("/inside", "tmp/link");
  const auto owned = [&](const char* path, uid_t owner) {
    return open_owned_below(root_.get(), path, owner);
  };
  EXPECT_TRUE(owned("/inside", ::geteuid()));
  EXPECT_EQ(owned("/inside", ::geteuid() + 1).error().code, ErrorCode::not_permitted);
  EXPECT_EQ(owned("/tmp/link", ::geteuid()).error().code, ErrorCode::unsupported);
}

// ---- leases -------------------------------------------------------------------------------------

/// A process that holds a lease on a file until its end, or gives it back when it is asked to.
class Lease {
 public:
  Lease(const std::string& path, bool is_honest) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      static int held = -1;
      held = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
      ::signal(SIGIO, is_honest ? [](int) { ::fcntl(held, F_SETLEASE, F_UNLCK); } : SIG_IGN);
      const char taken = ::fcntl(held, F_SETLEASE, F_WRLCK) == 0 ? 'y' : 'n';
      if (::write(ends[1], &taken, 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    ::close(ends[1]);
    char taken = '?';
    EXPECT_EQ(::read(ends[0], &taken, 1), 1);
    ::close(ends[0]);
    EXPECT_EQ(taken, 'y') << "no lease can be had here";
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_ = -1;
};

TEST(RegularFile, OneThatIsLeasedIsHadWhenItIsGivenBack) {
  const Place place;
  const auto path = place.write("file", "content");
  const Lease lease(path, true);
  const auto opened = open_regular_at(AT_FDCWD, path);
  EXPECT_TRUE(opened) << opened.error().message;
}

// Without a bound of ours the kernel has us wait for 45 s, and then gives us the file.
TEST(RegularFile, OneWhoseLeaseIsNotGivenBackIsNotWaitedFor) {
  const Place place;
  const auto path = place.write("file", "content");
  const Lease lease(path, false);
  const auto opened = open_regular_at(AT_FDCWD, path);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("lease"));
}

}  // namespace
}  // namespace vitrine::sandbox
