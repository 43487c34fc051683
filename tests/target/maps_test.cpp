// Mappings: lines of /proc/PID/maps, and the search for a process context in a real process.
#include "target/maps.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "sandbox/files.hpp"
#include "target/mapped_files.hpp"
#include "target/proc_file.hpp"

namespace vitrine::target {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Maps, LineWithAPath) {
  const auto mapping = parse_mapping(
      "7f0123456000-7f0123458000 r-xp 00002000 fd:01 1234567                    /usr/lib/a b.so");
  ASSERT_TRUE(mapping);
  EXPECT_EQ(*mapping, (Mapping{0x7f0123456000, 0x7f0123458000, true, false, true, false, 0x2000,
                               1234567, "/usr/lib/a b.so", makedev(0xfd, 1)}));
}

TEST(Maps, LineWithoutAName) {
  const auto mapping = parse_mapping("00400000-00401000 ---s 00000000 00:00 0 ");
  ASSERT_TRUE(mapping);
  EXPECT_EQ(*mapping, (Mapping{0x400000, 0x401000, false, false, false, true, 0, 0, ""}));
  EXPECT_TRUE(parse_mapping("00400000-00401000 ---s 00000000 00:00 0"));
}

TEST(Maps, HighestAddressOfTheMachine) {
  const auto mapping =
      parse_mapping("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0   [vsyscall]");
  ASSERT_TRUE(mapping);
  EXPECT_EQ(mapping->start, 0xffffffffff600000);
  EXPECT_EQ(mapping->name, "[vsyscall]");
}

TEST(Maps, NewlineInAPathIsUnescapedAndNothingElse) {
  const auto mapping = parse_mapping("1000-2000 r--p 0 0:0 5 /tmp/two\\012lines\\040and\\0123");
  ASSERT_TRUE(mapping);
  EXPECT_EQ(mapping->name, "/tmp/two\nlines\\040and\n3");
}

TEST(Maps, WhatIsNotALineIsRefused) {
  for (const char* line :
       {"", "-", "1000", "1000-2000", "1000-2000 r--p", "2000-1000 r--p 0 0:0 0",
        "1000-1000 r--p 0 0:0 0", "x000-2000 r--p 0 0:0 0", "1000-2000 r--pp 0 0:0 0",
        "1000-2000 r--p 0 00 0", "1000-2000 r--p 0 0:0 ", "1000-2000 r--p 0 0:0 x /a",
        "10000000000000000-20000000000000000 r--p 0 0:0 0", "1000 -2000 r--p 0 0:0 0"})
    EXPECT_FALSE(parse_mapping(line)) << line;
}

TEST(Maps, PiecesAreCutIntoLines) {
  LineCutter cutter;
  std::vector<std::string> lines;
  const auto keep = [&](std::string_view line) { lines.emplace_back(line); };
  cutter.feed("one\ntw", keep);
  cutter.feed("o\n", keep);
  cutter.feed("\nthree", keep);
  cutter.feed("", keep);
  cutter.feed("\nunfinished", keep);
  EXPECT_THAT(lines, ElementsAre("one", "two", "", "three"));
}

TEST(Maps, EndlessLineIsDroppedAndTheNextOneRead) {
  LineCutter cutter;
  std::vector<std::string> lines;
  const auto keep = [&](std::string_view line) { lines.emplace_back(line); };
  const std::string part(10'000, 'x');
  for (int i = 0; i < 100; ++i) cutter.feed(part, keep);
  cutter.feed("tail\nnext\n", keep);
  EXPECT_THAT(lines, ElementsAre("next"));
}

TEST(Maps, EveryLineOfThisProcessIsUnderstood) {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  std::size_t count = 0;
  while (std::getline(maps, line)) {
    EXPECT_TRUE(parse_mapping(line)) << line;
    ++count;
  }
  EXPECT_GT(count, 10u);
}

TEST(ContextMappings, NamesThatMayHoldAContext) {
  const auto named = [](const char* name) {
    return may_be_context({0x1000, 0x2000, true, true, false, false, 0, 0, name});
  };
  EXPECT_TRUE(named("[anon_shmem:OTEL_CTX]"));
  EXPECT_TRUE(named("[anon:OTEL_CTX]"));
  EXPECT_TRUE(named("/memfd:OTEL_CTX (deleted)"));
  EXPECT_TRUE(named("/memfd:OTEL_CTX"));
  EXPECT_TRUE(named("/memfd:OTEL_CTX_BACKUP (deleted)")) << "its signature decides";
  EXPECT_FALSE(named("/tmp/OTEL_CTX"));
  EXPECT_FALSE(named("[anon:MY_OTEL_CTX]"));
  EXPECT_FALSE(named(""));
}

TEST(ContextMappings, ExecutableAndUnreadableOnesAreLeftOut) {
  EXPECT_FALSE(may_be_context({0x1000, 0x2000, true, false, true, false, 0, 0, "[anon:OTEL_CTX]"}));
  EXPECT_FALSE(
      may_be_context({0x1000, 0x2000, false, true, false, false, 0, 0, "[anon:OTEL_CTX]"}));
}

/// A memfd of this process, mapped.
class Memfd {
 public:
  Memfd(const char* name, int protection) {
    const int fd = memfd_create(name, MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(fd, 4096), 0);
    address_ = mmap(nullptr, 4096, protection, MAP_PRIVATE, fd, 0);
    EXPECT_NE(address_, MAP_FAILED);
    ::close(fd);
  }
  ~Memfd() { munmap(address_, 4096); }
  Address address() const { return reinterpret_cast<std::uintptr_t>(address_); }

 private:
  void* address_;
};

FileDescriptor own_proc() {
  return std::move(*open_at(AT_FDCWD, "/proc/self", O_RDONLY | O_DIRECTORY));
}

std::vector<Address> found_here() {
  const auto found = context_mappings(own_proc().get());
  EXPECT_TRUE(found) << found.error().message;
  std::vector<Address> addresses;
  for (const Mapping& mapping : found->mappings) addresses.push_back(mapping.start);
  return addresses;
}

TEST(ContextMappings, FoundInALiveProcess) {
  EXPECT_THAT(found_here(), IsEmpty());
  const Memfd context("OTEL_CTX", PROT_READ | PROT_WRITE);
  const Memfd other("SOMETHING", PROT_READ);
  const Memfd hidden("OTEL_CTX", PROT_NONE);
  const Memfd code("OTEL_CTX", PROT_READ | PROT_EXEC);
  EXPECT_THAT(found_here(), ElementsAre(context.address()));
  const auto found = context_mappings(own_proc().get());
  EXPECT_EQ(found->mappings[0].end, context.address() + 4096);
  EXPECT_EQ(found->mappings[0].name.rfind("/memfd:OTEL_CTX", 0), 0u);
}

TEST(ContextMappings, TooManyAreCutAndFlagged) {
  std::vector<std::unique_ptr<Memfd>> many;
  for (int i = 0; i < 70; ++i)
    many.push_back(std::make_unique<Memfd>("OTEL_CTX", i % 2 ? PROT_READ : PROT_READ | PROT_WRITE));
  const auto found = context_mappings(own_proc().get());
  ASSERT_TRUE(found);
  EXPECT_THAT(found->mappings, SizeIs(64));
  EXPECT_TRUE(found->truncated);
}

/// A file that this process maps as code, and another that may take its place.
class MappedFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(dir_);
    for (const auto* path : {&real_, &other_}) {
      std::ofstream(*path) << std::string(4096, path == &real_ ? 'r' : 'o');
      std::filesystem::permissions(*path, std::filesystem::perms::owner_all);
    }
    at_ = map(real_, nullptr);
    ASSERT_NE(at_, MAP_FAILED);
    self_ = open_at(AT_FDCWD, "/proc/self", O_PATH | O_DIRECTORY).value();
    auto files = executable_files(self_.get()).value();
    for (MappedFile& file : files)
      if (file.path == real_) mapped_ = std::move(file);
    ASSERT_THAT(mapped_.parts, SizeIs(1));
  }
  void TearDown() override {
    ::munmap(at_, 4096);
    std::filesystem::remove_all(dir_);
  }
  static void* map(const std::string& path, void* at) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return ::mmap(at, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | (at != nullptr ? MAP_FIXED : 0),
                  file.get(), 0);
  }
  static char first_byte(const FileDescriptor& file) {
    char byte = 0;
    return ::pread(file.get(), &byte, 1, 0) == 1 ? byte : '?';
  }

  std::string dir_ = testing::TempDir() + "mapped_file_" + std::to_string(::getpid());
  std::string real_ = dir_ + "/real", other_ = dir_ + "/other";
  void* at_ = MAP_FAILED;
  FileDescriptor self_;
  MappedFile mapped_;
};

TEST_F(MappedFileTest, IsOpened) {
  const auto opened = open_mapped(self_.get(), mapped_);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(first_byte(*opened), 'r');
  mapped_.parts.clear();  // by its path
  ASSERT_TRUE(open_mapped(self_.get(), mapped_));
}

TEST_F(MappedFileTest, DeletedIsOpenedByItsMapping) {
  std::filesystem::remove(real_);
  const auto opened = open_mapped(self_.get(), mapped_);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(first_byte(*opened), 'r');
}

// A tmpfs file can be given the inode number of libc.
TEST_F(MappedFileTest, OfTheSameInodeOnAnotherDeviceIsRefused) {
  mapped_.device ^= 1;
  const auto with_parts = open_mapped(self_.get(), mapped_);
  ASSERT_FALSE(with_parts);
  EXPECT_EQ(with_parts.error().code, ErrorCode::not_found);
  mapped_.parts.clear();
  EXPECT_FALSE(open_mapped(self_.get(), mapped_));
}

// The process maps another file there between maps and map_files.
TEST_F(MappedFileTest, ReplacedMappingIsRefused) {
  ASSERT_EQ(map(other_, at_), at_);
  const auto opened = open_mapped(self_.get(), mapped_);  // by its path
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(first_byte(*opened), 'r');
  std::filesystem::rename(other_, real_);
  EXPECT_FALSE(open_mapped(self_.get(), mapped_));
}

}  // namespace
}  // namespace vitrine::target
