// Memory: the interface through which bytes of a process or a file are read, and views of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace vitrine {

// Memory: what every decoder reads from: the bytes at an address.
//
// Implementations: target/ (a live process), tests and fuzzers (a byte array). Decoders see only
// this interface, so they run the same on all of them.

/// An address in the target. Wide enough for every machine we read; never dereferenced here.
using Address = std::uint64_t;

/// The next multiple of `alignment`, which is not 0, from `value` on. It wraps like any sum.
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

/// How much of a range of `length` bytes lies below the end of the address space.
constexpr std::size_t before_end(Address address, std::size_t length) {
  if (address == 0) return length;
  return static_cast<std::size_t>(std::min<std::uint64_t>(length, 0 - address));
}

/// One element of a batched read. `got` is how many bytes, from the start of `into`, were readable.
struct ReadRequest {
  Address address = 0;
  std::span<std::byte> into;
  std::size_t got = 0;

  [[nodiscard]] bool complete() const { return got == into.size(); }
};

class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  virtual ~Memory() = default;

  /// Fills each request in array order: the bytes of one element are all copied before those of the
  /// next (the seqlock readers depend on it). A request that meets an unreadable page gets the
  /// readable prefix, down to 0 bytes; the others are still served. Nothing follows the highest
  /// address: reads do not wrap.
  virtual void read(std::span<ReadRequest> requests) = 0;

  /// Reads one run of bytes. Returns how many, from the start, were readable.
  std::size_t read_some(Address address, std::span<std::byte> into) {
    ReadRequest request{address, into, 0};
    read({&request, 1});
    return request.got;
  }

  /// Reads exactly `into.size()` bytes, or fails as `malformed` naming `what` and the address.
  Result<void> read_exact(Address address, std::span<std::byte> into, const char* what);

  /// Reads one trivially copyable value.
  template <class T>
  Result<T> read_value(Address address, const char* what) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    TRY(read_exact(address, std::as_writable_bytes(std::span(&value, 1)), what));
    return value;
  }
};

/// "0x7ffd1234": how addresses appear in every message.
std::string hex(std::uint64_t value);

// ByteMemory: bytes of its own, from an address on.

/// For what was unpacked or copied and is read like the file or process that it came from.
class ByteMemory final : public Memory {
 public:
  explicit ByteMemory(std::vector<std::byte> bytes, Address start = 0)
      : bytes_(std::move(bytes)), start_(start) {}

  void read(std::span<ReadRequest> requests) override {
    for (ReadRequest& request : requests) {
      const std::uint64_t at = request.address - start_;
      request.got = 0;
      if (at >= bytes_.size() || request.into.empty()) continue;
      request.got = std::min(request.into.size(), bytes_.size() - static_cast<std::size_t>(at));
      std::memcpy(request.into.data(), bytes_.data() + at, request.got);
    }
  }

 private:
  std::vector<std::byte> bytes_;
  Address start_;
};

// BoundedMemory: a Memory with a time limit.

/// Passes on reads until `requests` or `bytes` have been asked for; then nothing is readable any
/// more. Each structure of a hostile target is bounded by itself, but structures within structures
/// multiply: this bounds the whole of what one search may cost.
class BoundedMemory final : public Memory {
 public:
  /// `over`: asked now and then; when it returns true, that is the end, too.
  BoundedMemory(Memory& memory, std::uint64_t requests, std::uint64_t bytes,
                std::function<bool()> over = {})
      : memory_(memory), requests_(requests), bytes_(bytes), over_(std::move(over)) {}

  void read(std::span<ReadRequest> requests) override {
    std::uint64_t bytes = 0;
    for (ReadRequest& request : requests) {
      request.got = 0;
      bytes += request.into.size();
    }
    constexpr unsigned reads_between = 16;
    if (!exhausted_ && over_ && ++reads_ % reads_between == 0) exhausted_ = over_();
    if (exhausted_ || requests.size() > requests_ || bytes > bytes_) {
      exhausted_ = true;
      return;
    }
    requests_ -= requests.size();
    bytes_ -= bytes;
    memory_.read(requests);
  }

  [[nodiscard]] bool exhausted() const { return exhausted_; }

 private:
  Memory& memory_;
  std::uint64_t requests_;
  std::uint64_t bytes_;
  std::function<bool()> over_;
  unsigned reads_ = 0;
  bool exhausted_ = false;
};

// WindowMemory: a cache of small windows over another Memory, for one reading of a process.
//
// A label set is one pointer chase after another through a few dozen bytes each, mostly next to one
// another. Fetching the aligned KiB around each saves nearly all system calls; a window never
// crosses a page, so an unmapped neighbour costs nothing that was readable.

/// Serves what it has read before from its own copy: what belongs to a later time (the second
/// half of a consistency check) must be read from the source. Not thread-safe.
class WindowMemory final : public Memory {
 public:
  static constexpr std::size_t window_bytes = 1024;

  /// `source` must outlive this. Holds at most `max_windows` windows; then it starts over.
  explicit WindowMemory(Memory& source, std::size_t max_windows)
      : source_(source), max_windows_(max_windows) {}

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
  std::size_t max_windows_;
  std::unordered_map<std::uint64_t, Window> windows_;  // by address / window_bytes
};

// ChunkMemory: the bytes that came with a sample or an ordered read, and no others.

/// Views of bytes that the caller keeps. What they do not hold is not readable; `missed` lists
/// where a decoder asked for more than there is.
class ChunkMemory final : public Memory {
 public:
  struct Chunk {
    Address address = 0;
    std::span<const std::byte> bytes;
  };

  explicit ChunkMemory(std::vector<Chunk> chunks) : chunks_(std::move(chunks)) {}

  void read(std::span<ReadRequest> requests) override;

  /// The first address each incomplete read could not serve.
  [[nodiscard]] const std::vector<Address>& missed() const { return missed_; }

 private:
  std::vector<Chunk> chunks_;
  std::vector<Address> missed_;
};

}  // namespace vitrine
