// Memory: the one question every decoder asks: "which bytes are at this address?".
//
// Implementations: target/ (a live process), tests and fuzzers (a byte array). Decoders see only
// this interface, so they run the same on all of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

#include "base/result.hpp"

namespace vitrine {

/// An address in the target. Wide enough for every machine we read; never dereferenced here.
using Address = std::uint64_t;

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

}  // namespace vitrine
