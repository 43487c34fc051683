// FlatIndex: from 64-bit keys to positions, for thousands of keys that come and go together.
//
// One array, no node per key: filling and forgetting it costs a fraction of what std::unordered_map
// takes, which shows when every thread of a process is read many times a second.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vitrine {

class FlatIndex {
 public:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  /// The position of `key`, or `none`.
  [[nodiscard]] std::uint32_t find(std::uint64_t key) const {
    if (places_.empty()) return none;
    for (std::size_t at = first(key);; at = next(at)) {
      const Place& place = places_[at];
      if (place.epoch != epoch_) return none;
      if (place.key == key) return place.position;
    }
  }

  /// Gives `key`, if it has none, `position`. Returns the one it has now.
  std::uint32_t insert(std::uint64_t key, std::uint32_t position) {
    if (2 * (size_ + 1) > places_.size()) grow();
    for (std::size_t at = first(key);; at = next(at)) {
      Place& place = places_[at];
      if (place.epoch == epoch_ && place.key == key) return place.position;
      if (place.epoch == epoch_) continue;
      place = {key, epoch_, position};
      ++size_;
      return position;
    }
  }

  [[nodiscard]] std::size_t size() const { return size_; }

  /// Forgets all keys, in no time.
  void clear() {
    size_ = 0;
    if (++epoch_ == 0) {  // old places would come back to life
      places_.assign(places_.size(), Place{});
      epoch_ = 1;
    }
  }

 private:
  struct Place {
    std::uint64_t key = 0;
    std::uint32_t epoch = 0;  ///< taken, if it is the present one
    std::uint32_t position = 0;
  };

  /// Addresses differ in few bits: the multiplication spreads them (Fibonacci hashing).
  [[nodiscard]] std::size_t first(std::uint64_t key) const {
    return static_cast<std::size_t>((key * 0x9e37'79b9'7f4a'7c15ULL) >> shift_);
  }
  [[nodiscard]] std::size_t next(std::size_t at) const { return (at + 1) & (places_.size() - 1); }

  void grow() {
    std::vector<Place> old(places_.empty() ? 64 : 2 * places_.size());
    old.swap(places_);
    shift_ = 64;
    for (std::size_t size = places_.size(); size > 1; size /= 2) --shift_;
    size_ = 0;
    for (const Place& place : old)
      if (place.epoch == epoch_) insert(place.key, place.position);
  }

  std::vector<Place> places_;  // a power of two
  std::size_t size_ = 0;
  unsigned shift_ = 64;
  std::uint32_t epoch_ = 1;
};

}  // namespace vitrine
