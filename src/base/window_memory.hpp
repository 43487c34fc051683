// WindowMemory: a cache of small windows over another Memory, for one reading of a process.
//
// A label set is one pointer chase after another through a few dozen bytes each, mostly next to one
// another. Fetching the aligned KiB around each saves nearly all system calls; a window never
// crosses a page, so an unmapped neighbour costs nothing that was readable.
#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "base/memory.hpp"

namespace vitrine {

/// Bytes that will be wanted.
struct AddressRange {
  Address address = 0;
  std::size_t length = 0;
};

/// Serves what it has read before from its own copy: what belongs to a later moment (the second
/// half of a consistency check) must be read from the source. Not thread-safe.
class WindowMemory : public Memory {
 public:
  static constexpr std::size_t window_bytes = 1024;

  /// `source` must outlive this. Holds at most `most_windows` windows; then it starts over.
  explicit WindowMemory(Memory& source, std::size_t most_windows = 64 * 1024)
      : source_(source), most_windows_(most_windows) {}

  /// As Memory::read. All windows that the requests miss are fetched in one read of the source;
  /// requests of more than 16 windows go to the source as they are.
  void read(std::span<ReadRequest> requests) override;

  /// Fetches the windows that cover `ranges` (of each, the first 16 windows) in one read.
  void preload(std::span<const AddressRange> ranges);

  /// Makes known bytes that came another way, such as with a sample or in an ordered batch. They
  /// take precedence over windows.
  void insert(Address address, std::vector<std::byte> bytes);

  /// Forgets everything. Call between readings.
  void clear();

  /// How often read() had to go to the source.
  [[nodiscard]] std::size_t misses() const { return misses_; }

 private:
  struct Window {
    Window() {}  // leaves the bytes as they are: they are read into at once
    std::byte bytes[window_bytes];
    std::size_t got = 0;
  };

  struct Known {
    bool fetched = false;                ///< it was asked for; perhaps it is not readable
    std::span<const std::byte> bytes{};  ///< from the address asked for; perhaps none
  };

  Known known(Address at) const;
  void want(AddressRange range, std::vector<std::uint64_t>& missing) const;
  void fetch(std::vector<std::uint64_t>& missing);
  void serve(ReadRequest& request);

  Memory& source_;
  std::size_t most_windows_;
  std::size_t misses_ = 0;
  std::unordered_map<std::uint64_t, Window> windows_;  // by address / window_bytes
  std::map<Address, std::vector<std::byte>> inserted_;
};

}  // namespace vitrine
