// Deputy: a process of ours that reads memory of others for us, so that it is not us whom a page
// that never comes holds up.
//
// Who has a page of its memory served by a userfaultfd, or by a file system of its own (FUSE),
// decides when a read of it ends. No time limit and no signal but SIGKILL ends it before. So a
// process does it that can be killed: when its answer does not come, it is, and another one takes
// the next question.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "base/file_descriptor.hpp"
#include "child/child.hpp"
#include "target/desk.hpp"
#include "target/patience.hpp"
#include "target/spin.hpp"

namespace vitrine::target {

class Deputy {
 public:
  using Clock = std::chrono::steady_clock;

  /// A process is the child of a thread, and ends with that (PR_SET_PDEATHSIG): so each thread that
  /// reads has its own, and none waits for another's. It is made at the first question.
  static Deputy& of_this_thread();

  Deputy() = default;
  Deputy(const Deputy&) = delete;
  Deputy& operator=(const Deputy&) = delete;
  ~Deputy();

  struct Question {
    pid_t tid = 0;            ///< of the process whose memory it is; or
    int file = -1;            ///< a file to read from (/proc/PID/mem)
    bool one_by_one = false;  ///< page by page: slower, but what comes before a page that does not
                              ///< come is not lost
    /// In the order in which they are to be read: at most Desk::most_parts, of Desk::most_bytes.
    std::span<const iovec> parts;
  };
  struct Answer {
    std::span<const std::byte> bytes;  ///< of all parts before the first that is not all there;
                                       ///< valid until the next question
    int error = 0;                     ///< when there are none; EAGAIN: there is no deputy
    bool stalled = false;              ///< what comes after `bytes` does not come
  };
  /// `time`: how long it may take, if it is not for want of a processor.
  Answer ask(const Question& question, Clock::duration time);

  /// For all that this thread reads, whosesoever it is.
  Patience& patience() { return patience_; }

  /// The process; -1: there is none now.
  [[nodiscard]] pid_t pid() const { return child_.pid(); }

 private:
  struct Unmap {
    void operator()(Desk* desk) const;
  };
  enum class Outcome : std::uint8_t { answered, ended, stalled };

  bool begin();
  void dismiss();
  void forget_after_fork();
  [[nodiscard]] Outcome wait(std::uint32_t number, Clock::duration time);
  [[nodiscard]] bool is_stuck(std::uint32_t number);

  std::unique_ptr<Desk, Unmap> desk_;
  FileDescriptor socket_;
  child::Child child_;
  pid_t owner_ = -1;                 ///< the process that made it: a fork of that has none of it
  std::vector<child::Child> stuck_;  ///< killed, and not yet ended
  Patience patience_{std::chrono::seconds(10)};
  Spin spin_{std::chrono::microseconds(20)};
};

}  // namespace vitrine::target
