// RecordQueue: records on their way from the thread that empties the kernel's buffer to the thread
// that shows them.
//
// Without it, records wait in the kernel's buffer while the command formats and writes: a burst at
// full rate fills 16 MiB in a fraction of a second. Copying takes a tenth of the time of formatting,
// so that a thread which only copies keeps up, into memory that is allocated when it is needed.
//
// Ownership. A chunk of records belongs to one place at a time:
//   - open_     to the thread that puts records in (put, publish, offer): one at a time, each after the other,
//   - queue_    to the mutex,
//   - handed_   to the thread that takes records out (take).
// publish() and offer() move the open chunk into the queue, wait() moves the oldest one of the queue to the taker:
// both under the mutex, so that everything written to a chunk before is visible after. A chunk is never
// written once it is in the queue. Records leave in the order in which they were put. What a chunk's records differ
// from (packing_, unpacking_) belongs to the thread that puts, and to the one that takes; both begin anew with each
// chunk.
//
// Memory. Chunks are mappings of their own, whose pages exist once they are written, and which are gone
// when they are freed: a backlog leaves nothing behind in the heap. A slow taker finds few large chunks, not
// one for each offer().
//
// Bound: at most `max_bytes` and one record are held, as they are packed; beyond that put() returns false, and the
// records that follow stay in the kernel's buffer, which counts what it has no room for.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>

#include "bpf/packed_record.hpp"

namespace vitrine::bpf {

class RecordQueue {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RecordQueue(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  // The thread that puts records in:

  /// Keeps a record. False: it is taken, but there is no room for another one. A record for which
  /// memory is refused is dropped and counted. Allocates, and does not throw. `source`: a number that records have in
  /// common which are alike.
  bool put(std::span<const std::byte> record, std::uint64_t source) noexcept;

  /// Lets the other thread have what was put.
  void publish() noexcept;

  /// The same, if it has nothing else to take: else chunks would be many, with few records each. Returns whether it has
  /// all of them now.
  bool offer() noexcept;

  /// Waits until there is room, at most until `end`. Returns whether there is.
  bool wait_for_room(Clock::time_point end);

  // The thread that takes records out:

  /// Waits until there is a record, at most until `end`. Returns whether there is.
  bool wait(Clock::time_point end);

  /// The next record, good until the next call; empty: wait() has to be called first. Records have at
  /// least one byte, and less than 4 GiB.
  std::span<const std::byte> take();

  // Any thread:

  /// Records that were put, and those of them that were dropped, as memory was refused.
  [[nodiscard]] std::uint64_t records() const;
  [[nodiscard]] std::uint64_t dropped() const;
  /// Bytes that are held, of records as they are packed.
  [[nodiscard]] std::size_t held() const;

 private:
  struct Unmap {
    Unmap() : size(0) {}
    explicit Unmap(std::size_t bytes) : size(bytes) {}
    std::size_t size;
    void operator()(std::byte* at) const noexcept;
  };
  /// Records one behind the other.
  struct Chunk {
    static Chunk of(std::size_t capacity) noexcept;  ///< without capacity: memory is refused

    std::unique_ptr<std::byte[], Unmap> memory;
    std::size_t capacity = 0, used = 0;
  };

  bool make_room(std::size_t bytes) noexcept;
  void publish_locked() noexcept;
  bool has_room() const { return held_ < max_bytes_; }

  std::size_t max_bytes_;

  Chunk open_;
  LastRecords packing_;

  mutable std::mutex mutex_;
  std::condition_variable filled_, emptied_;
  std::deque<Chunk> queue_;
  Chunk spare_;           ///< a chunk that was taken out, to be used again
  std::size_t held_ = 0;  ///< used bytes of all chunks
  std::uint64_t records_ = 0, dropped_ = 0;

  Chunk handed_;
  LastRecords unpacking_;
  std::size_t taken_ = 0;  ///< bytes of `handed_`
};

}  // namespace vitrine::bpf
