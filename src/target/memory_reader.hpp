// Memory reader processes: reading memory that a target may withhold.
#pragma once

#include <sched.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file_descriptor.hpp"
#include "base/memory.hpp"
#include "base/result.hpp"
#include "sandbox/child.hpp"
#include "sandbox/seats.hpp"
#include "sandbox/system_calls.hpp"

namespace vitrine::target {

// TimeoutBudget: for how long one may wait for memory that does not come, and how often.

/// An allowance of time. What is used of it comes back slowly, so that a target read for hours
/// waits for a small part of them.
class TimeoutBudget {
 public:
  using Clock = std::chrono::steady_clock;
  using Duration = Clock::duration;

  explicit TimeoutBudget(Duration allowance) : allowance_(allowance), left_(allowance) {}

  /// What is left. Below zero: as much was spent that none should have been.
  Duration left(Clock::time_point now = Clock::now()) {
    constexpr int one_part_in = 10;
    left_ = std::min(allowance_, left_ + (now - seen_) / one_part_in);
    seen_ = now;
    return left_;
  }

  void spend(Duration time) { left_ = std::max(left_ - time, -allowance_); }

  /// As much as there was at first was spent again beyond it.
  bool exhausted() { return left() <= -allowance_ + Duration(std::chrono::milliseconds(1)); }

 private:
  Duration allowance_;
  Duration left_;
  Clock::time_point seen_ = Clock::now();
};

// SharedBuffer: the memory that a memory reader and its parent have in common.
//
// One request at a time. Either side looks for a while whether the other has done its part; then it
// announces that it sleeps and waits at the socket, where the other wakes it.

struct SharedBuffer {
  static constexpr std::size_t max_parts = 1024;      ///< the kernel's UIO_MAXIOV
  static constexpr std::size_t max_bytes = 1U << 20;  ///< of all parts
  static constexpr pid_t of_file = -1;
  static constexpr pid_t of_proc = -2;

  /// What is read of a file of /proc/PID: its text, or mappings by PROCMAP_QUERY, each as ProcmapQuery
  /// and its name without a NUL.
  enum class Proc : std::uint32_t { text, readable_mappings, executable_mappings };

  // Where the two meet, each on a line of its own.
  alignas(64) std::atomic<std::uint32_t> requested = 0;  ///< number of the last request
  std::atomic<std::uint32_t> asker_sleeps = 0;
  alignas(64) std::atomic<std::uint32_t> completed = 0;
  std::atomic<std::uint32_t> reader_sleeps = 0;
  std::atomic<std::uint32_t> taken = 0;  ///< the last that was begun with

  // The request: the memory of which thread; or of_file: a file, whose descriptor comes over the
  // socket. One by one: page by page, with `done` recording how far it got, should it get stuck.
  alignas(64) pid_t tid = 0;
  std::uint32_t count = 0;
  bool one_by_one = false;
  // of_proc: the file `path` of the directory whose descriptor comes over the socket; `goes_on`:
  // that of the last such request, from where it ended.
  Proc proc{};
  bool goes_on = false;
  std::uint64_t from = 0;  ///< address of mappings
  char path[48] = {};

  // The response: bytes read until the first part that was not all there. `error`: what of, if there
  // were none at all.
  std::atomic<std::uint64_t> done = 0;
  int error = 0;
  bool more = false;  ///< of_proc: it has not ended

  iovec parts[max_parts] = {};  ///< addresses of the target, or places in the file
  alignas(64) std::byte bytes[max_bytes];
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
              std::atomic<std::uint64_t>::is_always_lock_free);

// Spin: to wait for another process for so short a time that sleeping would take longer.

inline void pause_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

/// Spins for less long after it was of no use, as it is on a machine that has much to do, and for
/// longer after it was. Async-signal-safe.
class Spin {
 public:
  using Time = std::chrono::nanoseconds;

  /// None where there is but one processor: the other side cannot run meanwhile.
  explicit Spin(Time longest) : longest_(several_processors() ? longest : Time(0)) {}

  /// Whether `done` became true meanwhile.
  template <class Done>
  bool until(Done done) {
    using Clock = std::chrono::steady_clock;
    constexpr int looks = 16;  // between two at the clock
    if (done()) return true;
    for (const auto end = Clock::now() + time_; Clock::now() < end;) {
      for (int i = 0; i < looks; ++i) {
        if (done()) {
          time_ = std::min(longest_, time_ * 2);
          return true;
        }
        pause_processor();
      }
    }
    time_ = std::max(longest_ / 8, time_ / 2);
    return false;
  }

 private:
  static bool several_processors() {
    cpu_set_t set;
    return ::sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) > 1;
  }

  Time longest_;
  Time time_ = longest_;
};

// What a memory reader does from its first instruction to its last.

// MemoryReader: a child process that reads memory of targets, so that it is not vitrine that a
// page that never comes holds up.
//
// A target that has a page of its memory served by a userfaultfd, or by a file system of its own
// (FUSE), decides when a read of it ends. No time limit and no signal but SIGKILL ends it before.
// So a process does it that can be killed: when its response does not come, it is, and another one
// takes the next request.

/// Responds to requests at `buffer` until the other side of `socket` is gone. To be called in a child
/// that `parent` has just cloned; async-signal-safe. `filter`: null: this kernel has none.
[[noreturn]] void serve(SharedBuffer& buffer, int socket, pid_t parent,
                        const sandbox::Filter* filter);

/// A byte, or a descriptor, for the sleeper at the other end. It cannot fail in a way that matters:
/// a socket that is full wakes the waiter there.
void ring(int socket, int descriptor = -1);

class MemoryReader {
 public:
  using Clock = std::chrono::steady_clock;

  /// A process is the child of a thread, and ends with that (PR_SET_PDEATHSIG): so each thread that
  /// reads has its own, and none waits for another's. It is made at the first request, and may be ended between
  /// two, to make room for other children (sandbox/seats.hpp); then the next request makes another.
  static MemoryReader& of_this_thread();

  /// Makes it now: it shares all the memory that this process has by then.
  void start();

  MemoryReader() = default;
  MemoryReader(const MemoryReader&) = delete;
  MemoryReader& operator=(const MemoryReader&) = delete;
  ~MemoryReader();

  struct Request {
    pid_t tid = 0;            ///< of the process whose memory it is; or
    int file = -1;            ///< a file to read from (/proc/PID/mem)
    bool one_by_one = false;  ///< page by page: slower, but what comes before a page that does not
                              ///< come is not lost
    /// In the order of reading: at most SharedBuffer::max_parts, of SharedBuffer::max_bytes.
    std::span<const iovec> parts;
  };
  struct Response {
    std::span<const std::byte> bytes;  ///< of all parts before the first that is not all there;
                                       ///< valid until the next request
    int error = 0;                     ///< when there are none; EAGAIN: there is no reader
    bool stalled = false;              ///< what comes after `bytes` does not come
    bool more = false;                 ///< of a file of /proc: there may be more
  };
  /// `time`: how long it may take, if it is not for want of a processor.
  Response ask(const Request& request, Clock::duration time);

  /// A file of /proc/PID (proc_file.hpp lists which and why).
  struct ProcRequest {
    int directory = -1;          ///< -1: the file of the last request, on from where that ended
    const char* path = nullptr;  ///< below it
    SharedBuffer::Proc what{};
    Address from = 0;  ///< mappings that end after it
  };
  Response ask(const ProcRequest& request, Clock::duration time);
  /// Of the file of the last ProcRequest, no more is asked for. Until then, or its end, the seat stays claimed.
  void end_file();
  /// Calls it at the end of a scope.
  class FileEnd {
   public:
    explicit FileEnd(MemoryReader& reader) : reader_(reader) {}
    FileEnd(const FileEnd&) = delete;
    FileEnd& operator=(const FileEnd&) = delete;
    ~FileEnd() { reader_.end_file(); }

   private:
    MemoryReader& reader_;
  };

  /// For all that this thread reads, whosesoever it is.
  TimeoutBudget& budget() { return budget_; }

  /// The process; -1: there is none now.
  [[nodiscard]] pid_t pid() const { return seat_ ? seat_->process().pid() : -1; }

 private:
  struct Unmap {
    void operator()(SharedBuffer* buffer) const;
  };
  enum class Outcome : std::uint8_t { completed, ended, stalled };

  bool begin();
  bool claim();
  void release();
  void dismiss();
  void forget_after_fork();
  Response read_in_process(int directory);
  template <class Fill>
  Response ask_by(Fill fill, int descriptor, Clock::duration time);
  [[nodiscard]] Outcome wait(std::uint32_t number, Clock::duration time);
  [[nodiscard]] bool is_stuck(std::uint32_t number);

  std::unique_ptr<SharedBuffer, Unmap> buffer_;
  FileDescriptor socket_;
  /// Claimed in a request, and until a file of /proc is at its end.
  std::unique_ptr<sandbox::Seat> seat_;
  int own_proc_ = -1;  ///< a file that the reader may not read, and that is not at its end
  OwnProcess owner_;   ///< of all that: a fork has none of it
  std::vector<sandbox::Child> stuck_;  ///< killed, and not yet ended
  TimeoutBudget budget_{std::chrono::seconds(10)};
  Spin spin_{std::chrono::microseconds(20)};
};

/// One request for a file of /proc/PID, within the time that this thread may wait.
MemoryReader::Response ask_proc(const MemoryReader::ProcRequest& request);
/// Why it has no response.
tl::unexpected<Error> proc_error(const std::string& path, const MemoryReader::Response& response);

}  // namespace vitrine::target
