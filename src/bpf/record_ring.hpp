// Ring buffers of BPF programs: emptying them; and the rows of reductions.
//
// Ownership: a collector's thread uses the queue and the mapped buffer, and ends before both. In a fork of the process there
// is no such thread, and the queue may be half changed: there the end of a copy leaves both as they are, and only
// unmaps the buffer and closes descriptors (base/own_process.hpp).
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/own_process.hpp"
#include "base/result.hpp"
#include "bpf/mapped_ring.hpp"
#include "bpf/record_queue.hpp"
#include "bpf/tracer.hpp"

// RecordRing: the reader's end of a ring buffer that seldom wakes it (bpf/kernel/event.bpf.h,
// submit()).

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

  /// From the next poll() on, a thread that does nothing else empties the buffer when that is filled to a part,
  /// into at most so many bytes of memory; poll() hands over what that thread has taken, and what is in the
  /// buffer. It begins with the rights and the priority of the thread that polls first. Where no thread
  /// can be had, poll() reads the buffer.
  void collect(std::size_t max_bytes) { backlog_bytes_ = max_bytes; }

  /// Hands over what has come in, waiting for it at most `timeout`; ends, at the latest, after about
  /// `timeout` and one record. Returns how many records there were. What `sink` throws is thrown on: that record
  /// counts as taken, the next call has the rest.
  Result<std::size_t> poll(std::chrono::milliseconds timeout, const Sink& sink);

  /// CLOCK_MONOTONIC: records of before then do not come any more.
  [[nodiscard]] std::uint64_t taken_until_ns() const { return taken_until_ns_; }

  /// Records that the collector has taken out of the buffer, and those of them that it dropped, as
  /// memory was refused.
  [[nodiscard]] std::uint64_t collected() const { return queue_ ? queue_->records() : 0; }
  [[nodiscard]] std::uint64_t dropped() const { return queue_ ? queue_->dropped() : 0; }

 private:
  using Clock = std::chrono::steady_clock;
  static bool hand_over(void* context, std::span<const std::byte> record);
  void begin_collecting();
  void run_collector(const std::stop_token& stop);
  /// What a pass over the buffer has come to.
  enum class Passed {
    not_done,  ///< another thread is at it
    part,      ///< the queue had no room for all, or a record was still being written
    all,       ///< nothing was left in the buffer
  };
  Passed pass(bool by_poll);
  std::size_t hand_over_queue(Clock::time_point end, const Sink& sink, bool& is_all);
  Result<std::size_t> poll_queue(std::chrono::milliseconds timeout, const Sink& sink);
  void wait_for_wake_up(std::chrono::milliseconds most);
  void took(Clock::time_point began, bool is_all);

  std::optional<MappedRing> ring_;
  int wake_ = -1;
  volatile unsigned* reader_waits_ = nullptr;
  std::chrono::milliseconds wait_{10};  ///< of poll(), from one look into the buffer to the next

  std::size_t backlog_bytes_ = 0;  ///< 0: no collector is wanted
  std::unique_ptr<RecordQueue> queue_;
  /// Held by the thread that empties the buffer into the queue: the collector, or the one that polls. So what
  /// was in the buffer before the latter's pass is in the queue after it.
  std::mutex passing_;
  std::atomic<int> error_{0};  ///< an errno, of a pass
  int stop_ = -1;              ///< eventfd that ends the collector's wait
  EndsHere<std::jthread> collector_;

  std::uint64_t taken_until_ns_ = 0;
  std::uint64_t newest_ns_ = 0;  ///< of the records that were handed over, the last one's time

  // During poll().
  const Sink* sink_ = nullptr;
  std::size_t handed_over_ = 0;
  Clock::time_point last_header_;
  std::exception_ptr thrown_;  ///< by the sink
};

// Reading out of the kernel's tables what fires were added up to.

/// The tables, by their descriptors.
struct ReductionTables {
  int groups = -1;
  int buckets = -1;
  int names = -1;
};

/// What one site program adds to, as far as its rows are concerned.
struct ReductionShape {
  std::uint32_t probe = 0;
  int ungrouped = -1;  ///< table of what is not in groups, and the program's place there
  std::uint32_t place = 0;
  bool is_grouped = false;  ///< what is not in groups had no room there
  bool is_signed = false;   ///< the value that is added up
  std::vector<bool> argument_is_text;
};

Result<std::vector<ReductionRow>> read_reduction_rows(const ReductionTables& tables,
                                                      const vitrine_hash_key& key,
                                                      std::span<const ReductionShape> shapes,
                                                      std::size_t selected_labels);

}  // namespace vitrine::bpf
