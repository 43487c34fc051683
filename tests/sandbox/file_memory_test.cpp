// Files that change while they are read, and files that lie about their size.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

#include "sandbox/files.hpp"
#include "sandbox/place.hpp"

namespace vitrine::sandbox {
namespace {

std::unique_ptr<FileMemory> open_memory(const std::string& path) {
  auto memory = open_regular_at(AT_FDCWD, path).and_then([](FileDescriptor file) {
    return FileMemory::from(std::move(file));
  });
  EXPECT_TRUE(memory) << memory.error().message;
  return memory ? std::move(*memory) : nullptr;
}

std::string read(Memory& memory, Address at, std::size_t size) {
  std::string text(size, '?');
  text.resize(memory.read_some(at, std::as_writable_bytes(std::span(text.data(), size))));
  return text;
}

TEST(FileMemory, OfAFileThatShrinksGivesWhatIsLeft) {
  const Place place;
  const auto path = place.write("file", std::string(100'000, 'a'));
  const auto memory = open_memory(path);
  ASSERT_TRUE(memory);
  EXPECT_EQ(read(*memory, 50'000, 10), "aaaaaaaaaa");
  ASSERT_EQ(::truncate(path.c_str(), 50'003), 0);
  EXPECT_EQ(read(*memory, 50'000, 10), "aaa");
  EXPECT_EQ(read(*memory, 90'000, 10), "");
  EXPECT_EQ(memory->identity().size, 100'000);  // of when it was opened
}

TEST(FileMemory, OfAFileThatGrowsGivesWhatIsAskedFor) {
  const Place place;
  const auto path = place.write("file", "abc");
  const auto memory = open_memory(path);
  ASSERT_TRUE(memory);
  EXPECT_EQ(read(*memory, 0, 10), "abc");
  std::ofstream(path, std::ios::app) << "def";
  EXPECT_EQ(read(*memory, 0, 10), "abcdef");
  EXPECT_NE(open_memory(path)->identity(), memory->identity());
}

TEST(FileMemory, OfAFileThatIsReplacedStaysWhatItWas) {
  const Place place;
  const auto path = place.write("file", "first");
  const auto memory = open_memory(path);
  ASSERT_TRUE(memory);
  std::filesystem::rename(place.write("new", "other"), path);
  EXPECT_EQ(read(*memory, 0, 10), "first");
  EXPECT_NE(open_memory(path)->identity(), memory->identity());
}

TEST(FileMemory, OfATebibyteOfNothingIsRead) {
  const Place place;
  const auto path = place.write("file", "abc");
  ASSERT_EQ(::truncate(path.c_str(), 1LL << 40), 0);
  const auto memory = open_memory(path);
  ASSERT_TRUE(memory);
  EXPECT_EQ(read(*memory, (1ULL << 40) - 2, 10), std::string(2, '\0'));
  for (const Address beyond : {Address{1} << 40, Address{1} << 63, ~Address{0}})
    EXPECT_EQ(read(*memory, beyond, 10), "");
}

TEST(FileMemory, IsOfRegularFilesAlone) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const FileDescriptor in(ends[1]);
  const auto memory = FileMemory::from(FileDescriptor(ends[0]));
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, ErrorCode::unsupported);
}

}  // namespace
}  // namespace vitrine::sandbox
