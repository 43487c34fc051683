#include "publish/thread.hpp"

#include <pthread.h>

#include "publish/in_force.hpp"
#include "publish/keys.hpp"
#if VITRINE_PUBLISH_ABI == 1
#include "publish/handle.hpp"
#endif
#include "publish/local_atomic.hpp"

namespace vitrine::publish {
namespace {

/// In Thread::arena: taken down, nothing can be put in force any more.
void* const gone = reinterpret_cast<void*>(1);

pthread_key_t exit_key;
bool exit_key_made = false;

void end_labels(Thread& self) noexcept {
#if VITRINE_PUBLISH_ABI == 1
  const Words last = in_force(self);
#endif
  take_down(self);
#if VITRINE_PUBLISH_ABI == 1
  let_go(last);
#endif
}

void on_thread_exit(void* arena) {
  Thread& self = thread();
  end_labels(self);
  self.arena = gone;
  local_fence();
  retire_arena(static_cast<Arena*>(arena));
}

/// The child has one thread, and it does not do the work of the parent's. Scopes, attachments and
/// coroutines that were open find that their sets are not in force, and put nothing back.
void on_fork_child() {
  end_labels(thread());
  reset_quarantine();
  unlock_keys();
}

__attribute__((constructor(101))) void at_load() {
  exit_key_made = pthread_key_create(&exit_key, on_thread_exit) == 0;
  pthread_atfork(lock_keys, unlock_keys, on_fork_child);
}

}  // namespace

bool exiting(const Thread& self) noexcept {
  return self.arena == gone;
}

Arena* first_use(Thread& self) noexcept {
  if (self.arena != nullptr) return nullptr;
  Arena* arena = acquire_arena();
  if (arena == nullptr) return nullptr;
  void* none = nullptr;
  if (!__atomic_compare_exchange_n(&self.arena, &none, arena, false, __ATOMIC_RELAXED,
                                   __ATOMIC_RELAXED)) {
    retire_arena(arena);  // a signal handler was quicker
    return static_cast<Arena*>(none);
  }
  if (exit_key_made) pthread_setspecific(exit_key, arena);
  return arena;
}

}  // namespace vitrine::publish
