// The serial check of our own writer's sets.
#include <gtest/gtest.h>

#include "format/bytes.hpp"
#include "format/label_set.hpp"

namespace vitrine::format {
namespace {

using namespace vitrine::test;

constexpr Address set_at = 0x20'0000;
constexpr std::uint64_t magic = 0x76d1'7e1a'b315'e751ULL;

Bytes block(std::uint64_t serial, Address self = set_at, std::uint64_t with_magic = magic) {
  return Bytes().u64(0x30'0000).u64(2).u64(4).u64(with_magic).u64(serial).u32(600).u32(0).u64(self);
}

std::optional<SerialMark> mark_of(const Bytes& bytes) {
  BufferMemory memory;
  memory.place(set_at, bytes);
  return read_serial(memory, set_at);
}

TEST(SerialSet, MarksOurOwnSets) {
  EXPECT_EQ(mark_of(block(41)), (SerialMark{set_at, 41, 600}));
}

TEST(SerialSet, ForeignCopiedAndHalfWrittenSetsHaveNoMark) {
  EXPECT_FALSE(mark_of(block(41, set_at, magic + 1)));
  EXPECT_FALSE(mark_of(block(41, set_at + 64))) << "a copy does not pass for the original";
  EXPECT_FALSE(mark_of(block(0))) << "0: being rewritten";
  EXPECT_FALSE(mark_of(Bytes().u64(0x30'0000).u64(2).u64(4))) << "24 bytes at a mapping's end";
}

TEST(SerialSet, StandsOnlyWhileTheSerialIsTheSame) {
  abi::custom_labels::SerialSet again{};
  const auto read = [&](const Bytes& bytes) {
    BufferMemory memory;
    memory.place(set_at, bytes);
    again = *memory.read_value<abi::custom_labels::SerialSet>(set_at, "set");
  };
  const SerialMark mark{set_at, 41, 600};
  read(block(41));
  EXPECT_TRUE(is_unchanged(mark, again));
  read(block(42));
  EXPECT_FALSE(is_unchanged(mark, again));
  read(block(0));
  EXPECT_FALSE(is_unchanged(mark, again));
}

}  // namespace
}  // namespace vitrine::format
