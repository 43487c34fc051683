// What code processes have: what one of them shows is not believed of others.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "observe/profile/program.hpp"
#include "target/proc_file.hpp"

namespace vitrine::observe {
namespace {

constexpr off_t mark_at = 9;  // in the padding of e_ident

std::shared_ptr<const CodeFile> vdso_of(CodeReader& reader, const std::string& proc) {
  const auto dir = target::open_at(AT_FDCWD, proc, O_PATH | O_DIRECTORY).value();
  const ProcessCode code = reader.read(dir.get()).value();
  for (std::size_t i = 0; i < code.mappings.size(); ++i)
    if (code.mappings[i].name == "[vdso]") return code.files[i];
  return nullptr;
}

std::byte byte_of(const CodeFile& code) {
  std::byte byte{};
  code.file->read_some(mark_at, {&byte, 1});
  return byte;
}

TEST(CodeReader, TakesTheVdsoOfEachProcessAsItIs) {
  auto* const vdso = reinterpret_cast<std::byte*>(::getauxval(AT_SYSINFO_EHDR));
  ASSERT_NE(vdso, nullptr);
  const std::byte ours = vdso[mark_at];
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(1);
  }
  // As it could itself: the kernel gives it a page of its own for that.
  const std::byte other = ~ours;
  const auto memory = target::open_at(AT_FDCWD, fmt::format("/proc/{}/mem", child), O_RDWR).value();
  const auto place = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(vdso)) + mark_at;
  const bool changed = ::pwrite(memory.get(), &other, 1, place) == 1;
  if (changed) {
    CodeReader reader;
    const auto its = vdso_of(reader, "/proc/" + std::to_string(child));
    const auto real = vdso_of(reader, "/proc/self");
    const auto again = vdso_of(reader, "/proc/self");
    const auto its_again = vdso_of(reader, "/proc/" + std::to_string(child));
    for (const auto& file : {its, real, its_again}) {
      EXPECT_TRUE(file != nullptr && file->file != nullptr);
    }
    if (!HasFailure()) {
      EXPECT_EQ(byte_of(*its), ~ours);
      EXPECT_EQ(byte_of(*real), ours);
      EXPECT_EQ(byte_of(*its_again), ~ours);
    }
    EXPECT_EQ(real, again);  // shared
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(changed);
}

/// A directory like /proc/PID of a process that has mapped this program; `link`: where its link in
/// map_files leads.
class FakeProcess {
 public:
  explicit FakeProcess(const std::string& name, const std::string& link)
      : path_(testing::TempDir() + name) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_ + "/map_files");
    std::filesystem::create_directories(path_ + "/task/7");
    struct stat own {};
    EXPECT_EQ(::stat("/proc/self/exe", &own), 0);
    std::ofstream(path_ + "/maps")
        << fmt::format("10000-20000 r-xp 00000000 {:02x}:{:02x} {}    /nowhere/program\n",
                       major(own.st_dev), minor(own.st_dev), own.st_ino);
    std::ofstream(path_ + "/task/7/stat")
        << "7 (x) R 1 7 7 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 123456 0 0\n";
    std::filesystem::create_symlink(link, path_ + "/map_files/10000-20000");
  }
  FakeProcess(const FakeProcess&) = delete;
  FakeProcess& operator=(const FakeProcess&) = delete;
  ~FakeProcess() { std::filesystem::remove_all(path_); }

  std::shared_ptr<const CodeFile> file(CodeReader& reader) const {
    const auto dir = target::open_at(AT_FDCWD, path_, O_PATH | O_DIRECTORY).value();
    return reader.read(dir.get()).value().files.at(0);
  }

 private:
  std::string path_;
};

TEST(CodeReader, ThatCannotOpenAFileOfOneProcessOpensItOfAnother) {
  const std::string own = std::filesystem::read_symlink("/proc/self/exe");
  const FakeProcess without("without", "/nowhere/program"), with("with", own), too("too", own);
  CodeReader reader;
  EXPECT_EQ(without.file(reader)->file, nullptr);
  const auto file = with.file(reader);
  ASSERT_NE(file->file, nullptr);
  EXPECT_EQ(too.file(reader), file) << "what processes share is opened once";
  EXPECT_EQ(without.file(reader), file) << "by that device and inode";
}

}  // namespace
}  // namespace vitrine::observe
