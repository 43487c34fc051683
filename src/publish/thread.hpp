// The running thread's state: found by one TLS access, through the model the build is meant for.
#pragma once

#include <vitrine/detail/slot.hpp>

#include "publish/arena.hpp"
#include "publish/tls_access.hpp"

namespace vitrine::publish {

using labels::detail::has_arena;
using labels::detail::Thread;
using labels::detail::vitrine_labels_thread;
using labels::detail::Words;

inline Thread& thread() noexcept {
  return *static_cast<Thread*>(VITRINE_TLS_ADDRESS(vitrine_labels_thread));
}

/// The same, asked for once: gcc calls the descriptor's function again rather than keep what it
/// returned.
inline Thread& thread_once() noexcept {
  Thread* self = &thread();
#if !VITRINE_PUBLISH_STATIC
  __asm__("" : "+r"(self));
#endif
  return *self;
}

/// Registers what runs at fork and at the end of a thread, if that failed when the library was
/// loaded. Not in signal handlers.
void handle_forks_and_exits() noexcept;

/// Gives the thread an arena at its first use. Null: no memory, or the thread is exiting.
Arena* first_use(Thread& thread) noexcept;

/// Whether the thread's labels were taken down because it ends.
bool exiting(const Thread& thread) noexcept;

/// The arena of the running thread, or null as `first_use` says.
inline Arena* arena_of(Thread& thread) noexcept {
  return has_arena(thread) ? static_cast<Arena*>(thread.arena) : first_use(thread);
}

}  // namespace vitrine::publish
