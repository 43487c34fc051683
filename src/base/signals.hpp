// Signals of the thread at hand, held back for a short piece of work.
#pragma once

#include <signal.h>

namespace vitrine {

/// While it lives, this thread is interrupted by no signal. One that comes for the thread, or for a process
/// none of whose threads takes it, is delivered at its end. What the thread starts meanwhile has all signals blocked, too:
/// threads for their whole life, so that signals stay with the threads of the host; a child until it resets that.
///
/// Needed where a signal would do harm: around fork (no handler of the host runs in the child), around the start of
/// threads, and around the load of BPF programs: the kernel's verifier ends with EAGAIN as soon as a signal is
/// pending, and a host with a timer signal has one in each of the few attempts that libbpf makes.
///
/// Owned by one scope of one thread; scopes nest. Async-signal-safe; keeps errno.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);  // returns its error, and leaves errno alone
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace vitrine
