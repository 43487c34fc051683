#include "symbol/address_ranges.hpp"

#include "base/limits.hpp"

namespace vitrine::symbol {
namespace {

/// The numbers of a section, one after the other. What is behind its end is 0, and it has failed then.
class Numbers {
 public:
  Numbers(std::span<const std::byte> bytes, const elf::Encoding& encoding)
      : bytes_(bytes), encoding_(encoding) {}

  std::uint64_t next(std::size_t size) {
    if (size > left()) {
      failed_ = true;
      return 0;
    }
    const std::byte* const at = bytes_.data() + at_;
    at_ += size;
    switch (size) {
      case 1:
        return std::to_integer<std::uint64_t>(*at);
      case 2:
        return encoding_.u16(at);
      case 4:
        return encoding_.u32(at);
      case 8:
        return encoding_.u64(at);
      default:
        failed_ = true;
        return 0;
    }
  }

  /// The next `size` bytes, which are passed over here.
  Numbers part(std::uint64_t size) {
    failed_ |= size > left();
    const auto bytes = failed_ ? std::span<const std::byte>() : bytes_.subspan(at_, size);
    at_ += bytes.size();
    return {bytes, encoding_};
  }

  [[nodiscard]] std::size_t left() const { return bytes_.size() - at_; }
  [[nodiscard]] std::size_t at() const { return at_; }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  std::span<const std::byte> bytes_;
  elf::Encoding encoding_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace

ListedUnits list_units(std::span<const std::byte> section, const elf::Encoding& encoding,
                       const std::function<bool(Address)>& is_code) {
  constexpr std::uint64_t is_wide = 0xffffffff, reserved = 0xfffffff0;
  ListedUnits units;
  Numbers all(section, encoding);
  while (all.left() != 0 && !all.failed() && units.offsets.size() < limits::dwarf_units) {
    const std::size_t begin = all.at();
    std::uint64_t size = all.next(4);
    const std::size_t offset_bytes = size == is_wide ? 8 : 4;
    if (size == is_wide) size = all.next(8);
    if (offset_bytes == 4 && size >= reserved) break;
    const std::size_t before = all.at() - begin;
    Numbers set = all.part(size);
    const std::uint64_t version = set.next(2), offset = set.next(offset_bytes);
    const auto address_bytes = static_cast<std::size_t>(set.next(1));
    const std::uint64_t segment_bytes = set.next(1);
    if (set.failed() || version != 2 || segment_bytes != 0 ||
        (address_bytes != 4 && address_bytes != 8))
      break;
    // The tuples are aligned from where the set begins.
    if (const std::size_t over = (before + set.at()) % (2 * address_bytes); over != 0)
      static_cast<void>(set.part(2 * address_bytes - over));
    const auto index = static_cast<std::uint32_t>(units.offsets.size());
    bool has_code = false;
    while (set.left() >= 2 * address_bytes && units.ranges.size() < limits::dwarf_ranges) {
      const Address start = set.next(address_bytes), length = set.next(address_bytes);
      if (start == 0 && length == 0) break;
      if (length > ~start || !is_code(start)) continue;
      units.ranges.add(start, start + length, index, ~offset);
      has_code = true;
    }
    if (has_code) units.offsets.push_back(offset);
  }
  units.ranges.build();
  return units;
}

}  // namespace vitrine::symbol
