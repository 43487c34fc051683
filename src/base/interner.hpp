// Interner: a table that holds each value once; an index is a position in it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace vitrine {

/// A value is found by anything that `Hash` takes and that compares equal to a T. Values are found by an open table of
/// their hashes and positions: a value that is there takes one look at the table and one at itself, and a new one takes
/// no memory of its own.
template <class T, class Hash>
class Interner {
  static_assert(!std::is_integral_v<T>, "a value would be taken for an index");

 public:
  using Index = std::uint32_t;

  Interner() = default;
  Interner(const Interner&) = delete;
  Interner& operator=(const Interner&) = delete;

  /// Whether it is there, and where.
  template <class Like>
  std::pair<Index, bool> find(const Like& value) const {
    if (slots_.empty()) return {Index{}, false};
    const Slot& slot = slots_[place_of(value, short_hash(value))];
    return slot.next == 0 ? std::pair(Index{}, false) : std::pair(slot.next - 1, true);
  }

  template <class Like>
  Index add(Like&& value) {
    if (values_.size() >= slots_.size() / 2) grow();
    const std::uint32_t hash = short_hash(value);
    Slot& slot = slots_[place_of(value, hash)];
    if (slot.next != 0) return slot.next - 1;
    values_.emplace_back(std::forward<Like>(value));
    slot = {hash, static_cast<Index>(values_.size())};
    return slot.next - 1;
  }

  [[nodiscard]] const std::vector<T>& values() const { return values_; }
  [[nodiscard]] std::size_t size() const { return values_.size(); }

  /// Leaves it empty.
  std::vector<T> take() {
    slots_ = {};
    return std::exchange(values_, {});
  }

 private:
  struct Slot {
    std::uint32_t hash = 0;
    Index next = 0;  // after the value's; 0: the slot is free
  };

  template <class Like>
  static std::uint32_t short_hash(const Like& value) {
    return static_cast<std::uint32_t>(Hash{}(value)*0x9e37'79b9'7f4a'7c15ULL >> 32);
  }

  /// The slot that has the value, or the free one for it: half of them are free.
  template <class Like>
  std::size_t place_of(const Like& value, std::uint32_t hash) const {
    std::size_t at = hash & (slots_.size() - 1);
    while (slots_[at].next != 0 &&
           (slots_[at].hash != hash || !(value == values_[slots_[at].next - 1])))
      at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  void grow() {
    constexpr std::size_t fewest = 16;
    std::vector<Slot> slots(slots_.empty() ? fewest : slots_.size() * 2);  // a power of two
    for (const Slot& slot : slots_) {
      if (slot.next == 0) continue;
      std::size_t at = slot.hash & (slots.size() - 1);
      while (slots[at].next != 0) at = (at + 1) & (slots.size() - 1);
      slots[at] = slot;
    }
    slots_ = std::move(slots);
  }

  std::vector<T> values_;
  std::vector<Slot> slots_;
};

/// Texts, each once.
using StringInterner = Interner<std::string, std::hash<std::string_view>>;

/// Mixes a word into a hash (the finaliser of MurmurHash3).
constexpr std::size_t mix(std::size_t hash, std::uint64_t word) {
  std::uint64_t x = hash ^ (word + 0x9e37'79b9'7f4a'7c15ULL);
  x = (x ^ x >> 33) * 0xff51'afd7'ed55'8ccdULL;
  x = (x ^ x >> 33) * 0xc4ce'b9fe'1a85'ec53ULL;
  return static_cast<std::size_t>(x ^ x >> 33);
}

}  // namespace vitrine
