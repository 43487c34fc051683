// WindowMemory: a cache of small windows over another Memory, for one reading of a process.
//
// A label set is one pointer chase after another through a few dozen bytes each, mostly next to one
// another. Fetching the aligned KiB around each saves nearly all system calls; a window never
// crosses a page, so an unmapped neighbour costs nothing that was readable.
#pragma once

#include <unordered_map>
#include <vector>

#include "base/memory.hpp"

namespace vitrine {

/// Serves what it has read before from its own copy: what belongs to a later moment (the second
/// half of a consistency check) must be read from the source. Not thread-safe.
class WindowMemory final : public Memory {
 public:
  static constexpr std::size_t window_bytes = 1024;

  /// `source` must outlive this. Holds at most `most_windows` windows; then it starts over.
  explicit WindowMemory(Memory& source, std::size_t most_windows)
      : source_(source), most_windows_(most_windows) {}

  /// As Memory::read. All windows that the requests miss are fetched in one read of the source;
  /// requests of more than 16 windows go to the source as they are.
  void read(std::span<ReadRequest> requests) override;

 private:
  struct Window {
    Window() {}  // leaves the bytes as they are: they are read into at once
    std::byte bytes[window_bytes];
    std::size_t got = 0;
  };

  void want(const ReadRequest& request, std::vector<std::uint64_t>& missing) const;
  void fetch(std::vector<std::uint64_t>& missing);
  void serve(ReadRequest& request);

  Memory& source_;
  std::size_t most_windows_;
  std::unordered_map<std::uint64_t, Window> windows_;  // by address / window_bytes
};

}  // namespace vitrine
