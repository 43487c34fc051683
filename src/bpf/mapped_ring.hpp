// MappedRing: the reader's end of a BPF ring buffer. In place of libbpf's, which maps all of a buffer, twice: most
// profiles fill a small part of one. The layout is the kernel's: kernel/bpf/ringbuf.c.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "bpf/mapped_parts.hpp"

namespace vitrine::bpf {

class MappedRing {
 public:
  /// Takes a record. False: no more for now.
  using Take = bool (*)(void* context, std::span<const std::byte> record);

  /// `bytes`: of the buffer, a power of two. `map` must outlive this.
  MappedRing(int map, std::size_t bytes);
  ~MappedRing();
  MappedRing(const MappedRing&) = delete;
  MappedRing& operator=(const MappedRing&) = delete;

  /// Errors: failed, not_permitted.
  Result<void> open();

  enum class Taken {
    all,      ///< there was no more
    unready,  ///< the next record is still being written: more may be behind it
    stopped,  ///< `take` wants no more: what it was given last counts as taken
    failed    ///< errno has the reason
  };
  Taken take_all(Take take, void* context);

 private:
  int map_;
  std::size_t bytes_;
  std::uint64_t* taken_ = nullptr;    ///< where this end is: a page that this process may write to
  const std::byte* pages_ = nullptr;  ///< where the other end is
  MappedParts data_;  ///< the buffer, and once more, so that each record is in one piece
};

}  // namespace vitrine::bpf
