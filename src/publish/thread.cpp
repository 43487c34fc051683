#include "publish/thread.hpp"

#include <pthread.h>

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

void take_down(Thread& self) noexcept {
  put_in_force(self, Words{0, 0});
#if VITRINE_PUBLISH_ABI == 1
  if (has_arena(self)) let_go_of_all(self);
#endif
}

void on_thread_exit(void* arena) {
  Thread& self = thread();
  take_down(self);
  self.arena = gone;
  self.cells = nullptr;
  local_fence();
  retire_arena(static_cast<Arena*>(arena));
}

/// The child has one thread, and it is not working for whoever the parent's thread worked for.
/// Scopes that were open find that their set is not in force when they end, and put nothing back.
void on_fork_child() {
  take_down(thread());
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
