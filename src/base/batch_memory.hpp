// BatchMemory: a cache that fetches nothing by itself, so that many decoders can share one fetch.
//
// Label sets are pointer chases. Done one set after another, each step costs a system call a set.
// Here the decoders of thousands of sets run until they need bytes that are not here, then all of
// those bytes are fetched in one batch, and the decoders run again.
#pragma once

#include <memory>
#include <numeric>
#include <vector>

#include "base/flat_index.hpp"
#include "base/memory.hpp"

namespace vitrine {

class BatchMemory final : public Memory {
 public:
  /// Bytes come in aligned windows of this size, which never cross a page.
  static constexpr std::size_t window_bytes = 256;
  /// A set is three steps deep: set, array, strings; a large array takes some more.
  static constexpr std::size_t most_rounds = 32;

  /// `source` must outlive this. Holds at most `most_windows`.
  explicit BatchMemory(Memory& source, std::size_t most_windows = 256 * 1024)
      : source_(source), most_windows_(most_windows) {}

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
    for (std::size_t round = 0; round < most_rounds && !open.empty(); ++round) {
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
  std::size_t most_windows_;
  FlatIndex numbers_;  // address / window_bytes, to the position in windows_
  std::vector<Window> windows_;
  std::vector<Block> blocks_;  // one a fetch
  std::size_t blocks_used_ = 0;
  std::vector<Wanted> wanted_;
  std::size_t misses_ = 0;
};

}  // namespace vitrine
