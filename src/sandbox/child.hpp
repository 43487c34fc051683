// Child: a process that was forked to do some work for us.
//
// It is one program with us, forked and not executed: a library has no program of its own to start.
//
// Ownership: a Child is of the process that started or adopted it, and so is all that is counted of children. A
// copy that another process has by a fork is not that one's child: it only forgets it (base/own_process.hpp).
// Any thread may end it, one at a time; it ends with the thread that started it (drop_privileges()). It is counted until it
// has been reaped, by this code or by a host that reaps all its children: then waitid(2) by the handle finds none. Its
// number may be that of another process by then, so it is killed and waited for by the handle alone.
//
// A fork of a host with several threads copies locks that no thread will unlock. What several threads share is therefore made
// anew in a fork (PerProcess), and what this code runs in a child before it is confined is async-signal-safe, or what
// fork(3) itself makes safe (malloc). A child that hangs in another lock ends by the time limit of its request.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <optional>

#include "base/file_descriptor.hpp"
#include "base/own_process.hpp"
#include "base/result.hpp"

namespace vitrine::sandbox {

// What a child process does first: it resets what it inherited. All of this is
// async-signal-safe.

/// Signals as at the start of a program, but those that are sent to groups; the one descriptor
/// `keep`; nothing on 0 to 2. Returns what `keep` has become.
int reset_inherited(int keep);

/// No capabilities but those of `kept` (CAP_*) that are held; no core dump; no process of the same user
/// may look into it. It ends when the thread that made it does. `name`: at most 15 characters.
void drop_privileges(const char* name, pid_t parent, std::initializer_list<int> kept);

// PassedDescriptor: one descriptor beside a message of a Unix socket (SCM_RIGHTS).

/// Room for the descriptor: it must live as long as the message is sent or received. Safe in signal
/// handlers.
class PassedDescriptor {
 public:
  /// `message` carries `descriptor`, of which the receiver gets its own.
  void attach(msghdr& message, int descriptor) {
    message.msg_control = bytes_;
    message.msg_controllen = sizeof bytes_;
    cmsghdr* control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(control), &descriptor, sizeof descriptor);
  }

  /// `message` has room for one descriptor and no second one, which would stay open unseen.
  void expect(msghdr& message) {
    message.msg_control = bytes_;
    message.msg_controllen = CMSG_LEN(sizeof(int));
  }

  /// What came with a message that has been received. -1: none.
  static int received(const msghdr& message) {
    const cmsghdr* control = CMSG_FIRSTHDR(&message);
    if (control == nullptr || control->cmsg_level != SOL_SOCKET ||
        control->cmsg_type != SCM_RIGHTS || control->cmsg_len != CMSG_LEN(sizeof(int)))
      return -1;
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(control), sizeof descriptor);
    return descriptor;
  }

 private:
  alignas(cmsghdr) char bytes_[CMSG_SPACE(sizeof(int))] = {};
};

/// As fork(), in a process that has one thread and was forked itself: what it starts is not its own child but its
/// parent's.
pid_t fork_sibling();

enum class Kind : std::uint8_t {
  forked,  ///< by fork(): it may use memory and locks as its parent does
  /// By clone(), without libc's knowledge: it may call what is async-signal-safe. Its end raises no
  /// SIGCHLD, and no other code gets it from a wait for any child.
  quiet,
};

/// A child that another thread than that of its owner has ended.
struct EndedChild {
  pid_t pid = -1;
  std::chrono::nanoseconds used{0};  ///< processor time
};

class Child {
 public:
  /// Runs `life` in a child, which ends with it. No handler of a signal runs in it before
  /// reset_inherited(). Errors: failed.
  static Result<Child> start(Kind kind, const std::function<void()>& life);

  /// A child of this process that another process of it has started: fork_sibling().
  static Child adopt(pid_t pid);

  Child() = default;
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { end(); }

  explicit operator bool() const { return pid_ > 0; }
  /// False: this process was forked from the one whose child it is.
  [[nodiscard]] bool is_own() const { return pid_ <= 0 || owner_.is_here(); }
  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Whether it waits for something other than a processor; true, too, when it has ended.
  [[nodiscard]] bool waits() const;
  /// Readable once it has ended.
  [[nodiscard]] int handle() const { return handle_.get(); }

  /// Kills it and waits for its end, for a second at most: one that is in a system call that
  /// nothing ends (a read of a file whose server has stopped) ends with that, and is reaped then.
  void end() noexcept;

  /// Kills it and does not wait: it is reaped when it has ended.
  void abandon() noexcept;

  void kill() const noexcept;

  /// As end(), for the thread that started it: that must take_account() of the result.
  EndedChild end_for_owner() noexcept;
  static void take_account(const EndedChild& ended) noexcept;

  /// How many there are in this process, of all threads.
  static int alive() noexcept;

  /// Its status, as waitpid(2) has it, when it has ended by then; 0 if other code had that. There
  /// is no child any more then. nullopt: it goes on.
  std::optional<int> wait(std::chrono::milliseconds time);

  /// Neither kills nor waits for it.
  void forget() noexcept;

 private:
  Child(pid_t pid, FileDescriptor handle) : pid_(pid), handle_(std::move(handle)) {}
  int reap() noexcept;
  int wait_for_end(std::chrono::nanoseconds& used) noexcept;
  std::optional<int> wait_without_handle(std::chrono::milliseconds time);

  pid_t pid_ = -1;         ///< -1: there is none
  FileDescriptor handle_;  ///< pidfd
  OwnProcess owner_;
};

}  // namespace vitrine::sandbox
