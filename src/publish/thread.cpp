// Threads begin and end, and fork: what base/thread.hpp declares. It is here because the end of a
// thread ends what all rooms below hold for it.
#include "publish/base/thread.hpp"

#include <pthread.h>

#include <atomic>

#include "publish/base/at_fork.hpp"
#include "publish/in_force.hpp"
#include "publish/set/kept.hpp"
#include "publish/set/keys.hpp"
#if VITRINE_PUBLISH_ABI == 1
#include "publish/handle/handle.hpp"
#endif
#if VITRINE_PUBLISH_OTEL
#include "publish/context/publisher.hpp"
#endif
#include "publish/base/local_atomic.hpp"

namespace vitrine::publish {
namespace {

/// In Thread::arena: taken down, nothing can be put in force any more.
void* const gone = reinterpret_cast<void*>(1);

pthread_key_t exit_key;
std::atomic<bool> handles_exits{false};
/// Without it a fork child would show its parent's labels: no thread gets labels before.
std::atomic<bool> handles_forks{false};
std::atomic_flag registering = ATOMIC_FLAG_INIT;

void end_labels(Thread& self) noexcept {
  take_down(self);
#if VITRINE_PUBLISH_ABI == 1
  if (has_arena(self)) let_go_of_all(self);
#endif
  if (has_arena(self)) forget_kept(*static_cast<Arena*>(self.arena));
}

/// Where cells show that a handle is the thread's own, the arena is used without a further look. So
/// the cells are cleared before the arena is gone, and a handler in between does not set them again.
void on_thread_exit(void* of_thread) {
  Thread& self = thread();
  auto* arena = static_cast<Arena*>(of_thread);
  end_labels(self);
#if VITRINE_PUBLISH_ABI == 1
  arena->handles.settling = true;
  local_fence();
  clear_cells(self, arena->handles.cells);
  local_fence();
#endif
  self.arena = gone;
  local_fence();
  arena->handles.settling = false;
  end_taking();
  retire_arena(arena);
}

/// The child has one thread, and it does not do the work of the parent's. Scopes, attachments and
/// coroutines that were open find that their sets are not in force, and put nothing back.
void on_fork_child() {
  forget_shared_memory();
#if VITRINE_PUBLISH_ABI == 1
  forget_other_threads(thread_pointer());
#endif
  end_labels(thread());
  unlock_keys();
}

__attribute__((constructor(101))) void at_load() {
#if VITRINE_PUBLISH_OTEL
  declare_records();
#endif
  handle_forks_and_exits();
}

#if VITRINE_PUBLISH_STATIC && defined(__PIC__) && !defined(__PIE__)
/// As one header the library may be in a plug-in, although it is not meant for one: threads that outlive
/// the plug-in would call what is no longer there. (libcustomlabels.so is never unloaded, and libc
/// takes back the fork handlers.)
__attribute__((destructor(101))) void at_unload() {
  if (handles_exits.exchange(false, std::memory_order_acq_rel)) pthread_key_delete(exit_key);
}
#endif

}  // namespace

void handle_forks_and_exits() noexcept {
  if (handles_forks.load(std::memory_order_acquire) &&
      handles_exits.load(std::memory_order_acquire))
    return;
  if (registering.test_and_set(std::memory_order_acquire)) return;  // another thread does it
  if (!handles_exits.load(std::memory_order_relaxed))
    handles_exits.store(pthread_key_create(&exit_key, on_thread_exit) == 0,
                        std::memory_order_release);
  if (!handles_forks.load(std::memory_order_relaxed))
    handles_forks.store(at_fork(lock_keys, unlock_keys, on_fork_child) == 0,
                        std::memory_order_release);
  registering.clear(std::memory_order_release);
}

bool handles_exit() noexcept {
  return handles_exits.load(std::memory_order_acquire);
}

bool exiting(const Thread& self) noexcept {
  return self.arena == gone;
}

Arena* first_use(Thread& self) noexcept {
  if (self.arena != nullptr || !handles_forks.load(std::memory_order_acquire)) return nullptr;
  Arena* arena = acquire_arena();
  if (arena == nullptr) return nullptr;
  // Before the arena is in use: whatever is put in force must be taken down when the thread ends.
  const bool exits = handles_exits.load(std::memory_order_acquire);
  if (exits && pthread_setspecific(exit_key, arena) != 0) {
    retire_arena(arena);
    return has_arena(self) ? static_cast<Arena*>(self.arena) : nullptr;
  }
  void* none = nullptr;
  if (!__atomic_compare_exchange_n(&self.arena, &none, arena, false, __ATOMIC_RELAXED,
                                   __ATOMIC_RELAXED)) {
    // A signal handler was quicker. (Its own call made room for the value: this one cannot fail.)
    if (exits) pthread_setspecific(exit_key, none);
    retire_arena(arena);
    return static_cast<Arena*>(none);
  }
  return arena;
}

}  // namespace vitrine::publish
