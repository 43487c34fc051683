// RecordRing: the reader's end of a ring buffer that seldom wakes it (moment.bpf.h submit()).
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "base/result.hpp"

struct ring_buffer;

namespace vitrine::bpf {

class RecordRing {
 public:
  using Sink = std::function<void(std::span<const std::byte>)>;

  /// A size that a ring buffer may have.
  static std::size_t size_of(std::size_t wanted_bytes);

  RecordRing() = default;
  RecordRing(const RecordRing&) = delete;
  RecordRing& operator=(const RecordRing&) = delete;
  ~RecordRing();

  /// `map`: descriptor of the buffer. `reader_waits`: the program's, in its mapped variables. Both
  /// must outlive this. Errors: not_permitted, failed.
  Result<void> open(int map, volatile unsigned* reader_waits);

  /// Hands over what has come in, waiting for it at most `timeout`; ends, at the latest, after about
  /// `timeout` and one record. Returns how many records there were.
  Result<std::size_t> poll(std::chrono::milliseconds timeout, const Sink& sink);

 private:
  using Clock = std::chrono::steady_clock;
  static int hand_over(void* context, void* data, std::size_t size);

  ring_buffer* ring_ = nullptr;
  int wake_ = -1;
  volatile unsigned* reader_waits_ = nullptr;
  std::chrono::milliseconds wait_{10};
  // During poll().
  const Sink* sink_ = nullptr;
  std::size_t handed_over_ = 0;
  Clock::time_point last_moment_;
};

}  // namespace vitrine::bpf
