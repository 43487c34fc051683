// BatchMemory: a cache that fetches nothing by itself, so that many decoders can share one fetch.
//
// Label sets are pointer chases. Done one set after another, each step costs a system call a set.
// Here the decoders of thousands of sets run until they need bytes that are not here, then all of
// those bytes are fetched in one batch, and the decoders run again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "base/memory.hpp"

namespace vitrine {

// FlatIndex: from 64-bit keys to positions, for thousands of keys that come and go together.
//
// One array, no node per key: filling and forgetting it costs a fraction of what std::unordered_map
// takes, which shows when every thread of a process is read many times a second.

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

class BatchMemory final : public Memory {
 public:
  /// Bytes come in aligned windows of this size, which never cross a page.
  static constexpr std::size_t window_bytes = 256;
  /// A set is three steps deep: set, array, strings; a large array takes some more.
  static constexpr std::size_t max_rounds = 32;

  /// `source` must outlive this. Holds at most `max_windows`.
  explicit BatchMemory(Memory& source, std::size_t max_windows = 256 * 1024)
      : source_(source), max_windows_(max_windows) {}

  /// Serves what has been fetched. What has not counts as unreadable and is remembered as wanted.
  void read(std::span<ReadRequest> requests) override;

  /// Remembers that these bytes will be wanted.
  void want(Address address, std::size_t length);

  /// How many reads have met bytes that are not here. A decoder after whose run this has grown must
  /// run again, after a fetch().
  [[nodiscard]] std::size_t misses() const { return misses_; }

  /// Fetches all that is wanted in one read of the source. False when not all of it fits.
  bool fetch();

  /// Runs `step(job)` for each job from 0 to `jobs - 1`, again for those that lacked bytes, after a
  /// fetch of what all of them lacked, until none does. Returns those for which that did not end:
  /// too much was wanted, or in too many steps, as only a hostile target makes it.
  template <class Step>
  std::vector<std::size_t> run(std::size_t jobs, Step step) {
    std::vector<std::size_t> open(jobs);
    std::iota(open.begin(), open.end(), std::size_t{0});
    for (std::size_t round = 0; round < max_rounds && !open.empty(); ++round) {
      std::vector<std::size_t> lacking;
      for (const std::size_t job : open) {
        const std::size_t before = misses_;
        step(job);
        if (misses_ != before) lacking.push_back(job);
      }
      open = std::move(lacking);
      if (!open.empty() && !fetch()) break;
    }
    return open;
  }

  /// Forgets everything, but keeps its room for the next time. Call between readings.
  void clear();

 private:
  struct Block {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;
  };
  struct Window {
    const std::byte* bytes = nullptr;  ///< null: wanted, not here yet
    std::size_t got = 0;
  };
  struct Wanted {
    std::uint64_t number = 0;
    std::uint32_t position = 0;  ///< in windows_
  };

  std::size_t serve(Address address, std::span<std::byte> into);
  std::byte* room(std::size_t size);

  Memory& source_;
  std::size_t max_windows_;
  FlatIndex numbers_;  // address / window_bytes, to the position in windows_
  std::vector<Window> windows_;
  std::vector<Block> blocks_;  // one a fetch
  std::size_t blocks_used_ = 0;
  std::vector<Wanted> wanted_;
  std::size_t misses_ = 0;
};

}  // namespace vitrine
