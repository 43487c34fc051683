// WindowMemory: same answers as its source, fewer questions to it.
#include <gmock/gmock.h>

#include "base/memory.hpp"
#include "format/bytes.hpp"

namespace vitrine {
namespace {

using namespace vitrine::test;

/// Counts calls and remembers the largest batch.
class CountingMemory : public BufferMemory {
 public:
  void read(std::span<ReadRequest> requests) override {
    ++calls;
    largest_batch = std::max(largest_batch, requests.size());
    BufferMemory::read(requests);
  }
  std::size_t calls = 0;
  std::size_t largest_batch = 0;
};

std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  return bytes;
}

TEST(WindowMemory, AnswersAsItsSourceDoes) {
  CountingMemory source;
  const auto all = pattern(64 * 1024);
  source.place(0x10'0000, all);
  WindowMemory windows(source, 1000);
  for (const auto& [offset, length] : {std::pair<std::size_t, std::size_t>{0, 1},
                                       {1000, 100},
                                       {1023, 2},
                                       {5000, 9000},
                                       {100, 40'000},
                                       {65'535, 1},
                                       {65'530, 100},
                                       {0, 0}}) {
    std::vector<std::byte> got(length);
    const std::size_t n = windows.read_some(0x10'0000 + offset, got);
    ASSERT_EQ(n, std::min(length, all.size() - offset)) << offset;
    EXPECT_TRUE(std::equal(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(n),
                           all.begin() + static_cast<std::ptrdiff_t>(offset)))
        << offset;
  }
}

TEST(WindowMemory, OneQuestionForAWholeBatchAndNoneForNeighbours) {
  CountingMemory source;
  source.place(0x10'0000, pattern(8192));
  WindowMemory windows(source, 1000);
  std::uint64_t a = 0, b = 0;
  ReadRequest requests[] = {{0x10'0000, std::as_writable_bytes(std::span(&a, 1)), 0},
                            {0x10'1000, std::as_writable_bytes(std::span(&b, 1)), 0}};
  windows.read(requests);
  EXPECT_EQ(source.calls, 1u);
  EXPECT_EQ(source.largest_batch, 2u);
  EXPECT_TRUE(windows.read_value<std::uint64_t>(0x10'0100, "x"));
  EXPECT_EQ(source.calls, 1u);
}

TEST(WindowMemory, UnreadableIsTheReadablePrefix) {
  CountingMemory source;
  source.place(0x10'0c00, pattern(0x400));  // ends with its page
  WindowMemory windows(source, 1000);
  std::vector<std::byte> got(64);
  EXPECT_EQ(windows.read_some(0x10'0fe0, got), 32u);
  EXPECT_EQ(windows.read_some(0x20'0000, got), 0u);
}

TEST(WindowMemory, ReadableBytesThatBeginInsideAWindowAreFound) {
  CountingMemory source;
  source.place(0x10'0123, pattern(50));
  WindowMemory windows(source, 1000);
  std::vector<std::byte> got(50);
  EXPECT_EQ(windows.read_some(0x10'0123, got), 50u);
}

TEST(WindowMemory, EndOfTheAddressSpaceDoesNotWrap) {
  CountingMemory source;
  source.place(0, pattern(100));
  source.place(~Address{0} - 99, pattern(100));
  WindowMemory windows(source, 1000);
  std::vector<std::byte> got(64);
  EXPECT_EQ(windows.read_some(~Address{0} - 15, got), 16u);
}

TEST(WindowMemory, StaysWithinItsSize) {
  CountingMemory source;
  const auto all = pattern(64 * 1024);
  source.place(0x10'0000, all);
  WindowMemory windows(source, 8);
  std::vector<std::byte> got(100);
  for (int round = 0; round < 2; ++round)
    for (std::size_t i = 0; i < 64; ++i) {
      ASSERT_EQ(windows.read_some(0x10'0000 + i * 1024, got), 100u);
      EXPECT_TRUE(
          std::equal(got.begin(), got.end(), all.begin() + static_cast<std::ptrdiff_t>(i * 1024)))
          << i;
    }
  EXPECT_GE(source.calls, 120u) << "with room for 8 windows nearly all must be fetched again";
  std::vector<std::byte> large(12 * 1024);
  EXPECT_EQ(windows.read_some(0x10'0000, large), large.size()) << "more windows than fit";
}

}  // namespace
}  // namespace vitrine
