#include "symbol/address_ranges.hpp"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

namespace vitrine::symbol {
namespace {

using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

/// Sets of .debug_aranges, as a compiler writes them.
class Sets {
 public:
  explicit Sets(elf::Encoding encoding = {}) : encoding_(encoding) {}

  void add(std::uint64_t unit, const Ranges& ranges, bool is_wide = false,
           std::size_t address = 8) {
    const std::size_t offset = is_wide ? 8 : 4, initial = is_wide ? 12 : 4;
    const std::size_t head = initial + 2 + offset + 2;
    const std::size_t padding = (2 * address - head % (2 * address)) % (2 * address);
    const std::size_t size = head + padding + (ranges.size() + 1) * 2 * address - initial;
    if (is_wide) put(0xffffffff, 4);
    put(size, offset);
    put(2, 2);
    put(unit, offset);
    put(address, 1);
    put(0, 1);
    bytes.append(padding, '\0');
    for (const auto& [start, length] : ranges) {
      put(start, address);
      put(length, address);
    }
    put(0, 2 * address);
  }

  [[nodiscard]] ListedUnits listed() const {
    return list_units(std::as_bytes(std::span(bytes)), encoding_,
                      [](Address address) { return address >= 0x1000; });
  }

  std::string bytes;

 private:
  void put(std::uint64_t value, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t byte = encoding_.big_endian ? size - 1 - i : i;
      bytes.push_back(static_cast<char>(byte < 8 ? value >> 8 * byte : 0));
    }
  }

  elf::Encoding encoding_;
};

std::uint64_t unit_at(const ListedUnits& units, Address address) {
  const auto index = units.ranges.find(address);
  return index ? units.offsets.at(*index) : ~std::uint64_t{0};
}
constexpr std::uint64_t none = ~std::uint64_t{0};

TEST(AddressRanges, OfEveryShape) {
  for (const bool big_endian : {false, true})
    for (const bool is_wide : {false, true})
      for (const std::size_t address : {4, 8}) {
        Sets sets({true, big_endian});
        sets.add(0, {{0x1000, 0x10}, {0x3000, 0x20}}, is_wide, address);
        sets.add(0x123, {{0x2000, 0x100}}, is_wide, address);
        const ListedUnits units = sets.listed();
        EXPECT_EQ(unit_at(units, 0xfff), none);
        EXPECT_EQ(unit_at(units, 0x1000), 0U);
        EXPECT_EQ(unit_at(units, 0x1010), none);
        EXPECT_EQ(unit_at(units, 0x301f), 0U);
        EXPECT_EQ(unit_at(units, 0x20ff), 0x123U);
        EXPECT_EQ(unit_at(units, 0x2100), none);
      }
}

// Code that many units have is the first one's, in whatever order they are listed.
TEST(AddressRanges, OfCodeThatIsDescribedTwice) {
  Sets sets;
  sets.add(0x500, {{0x1000, 0x100}});
  sets.add(0x100, {{0x1080, 0x100}});
  const ListedUnits units = sets.listed();
  EXPECT_EQ(unit_at(units, 0x1070), 0x500U);
  EXPECT_EQ(unit_at(units, 0x1080), 0x100U);
}

// What the linker has left out lies at 0, of any length; a unit without code is none.
TEST(AddressRanges, OfCodeThatIsNotThere) {
  Sets sets;
  sets.add(0, {{0, 0x5000}, {1, 0}});
  sets.add(0x100, {});
  sets.add(0x200, {{0x1000, ~0ULL}, {0x2000, 8}});
  const ListedUnits units = sets.listed();
  EXPECT_EQ(units.offsets, std::vector<std::uint64_t>{0x200});
  EXPECT_EQ(unit_at(units, 0x1000), none);
  EXPECT_EQ(unit_at(units, 0x2007), 0x200U);
}

TEST(AddressRanges, UpToWhatIsInvalid) {
  Sets sets;
  sets.add(0x100, {{0x1000, 0x100}});
  const std::size_t first = sets.bytes.size();
  sets.add(0x200, {{0x2000, 0x100}});
  const std::string whole = sets.bytes;
  for (std::size_t length = first; length < whole.size(); ++length) {
    sets.bytes = whole.substr(0, length);
    const ListedUnits units = sets.listed();
    EXPECT_EQ(unit_at(units, 0x1000), 0x100U) << length;
    EXPECT_EQ(unit_at(units, 0x2000), none) << length;
  }
  // Its version, the size of its addresses, and that of a segment's number.
  for (const std::size_t at : {std::size_t{4}, std::size_t{10}, std::size_t{11}}) {
    sets.bytes = whole;
    sets.bytes[first + at] = 7;
    EXPECT_EQ(unit_at(sets.listed(), 0x1000), 0x100U) << at;
    EXPECT_EQ(unit_at(sets.listed(), 0x2000), none) << at;
  }
}

}  // namespace
}  // namespace vitrine::symbol
