// Handle: a label set of the C interface. It stays where it is while its labels change.
//
// Observers see the ABI's 24 bytes. The labels they point at are a version: an immutable array and
// the bytes that its labels refer to. A change makes another version and then changes `storage` and
// `count` by one instruction, so a handler that interrupts the thread sees one version or the
// other. Other CPUs may see the two words change one after the other: in this process readers load
// `storage` alone and take the count from the version, which they hold meanwhile.
//
// One thread at a time changes a handle, and signal handlers in the midst of that: a writer
// that finds another version in place than it started from starts again. Any number of threads may read.
//
// Handles and versions are cells (cells.hpp).
#pragma once

#include <customlabels.h>

#include <cstdint>

#include "publish/base/block.hpp"
#include "publish/base/cells.hpp"
#include "publish/base/local_atomic.hpp"
#include "publish/base/thread.hpp"
#include "publish/handle/version.hpp"

namespace vitrine::publish {

struct alignas(64) Handle {
  WordPair now;  ///< SetV1's `storage` and `count`
  std::uint64_t capacity;
  std::uint64_t magic;  ///< where sets of scopes have theirs
  Cell cell;

  static constexpr std::uint64_t handle_magic = 0x5ce7'4a2d'1e00'c0deULL;
  static constexpr std::uint64_t ended_magic = 0x5ce7'4a2d'1e00'deadULL;

  /// Where the labels of the version in use are; 0: the handle has ended.
  [[nodiscard]] std::uint64_t storage() const noexcept {
    return __atomic_load_n(&now.first, __ATOMIC_SEQ_CST);
  }
};
static_assert(sizeof(Handle) == 64 && offsetof(Handle, cell) == 32);
static_assert(offsetof(abi::custom_labels::SetV1, storage) == 0 &&
              offsetof(abi::custom_labels::SetV1, count) == 8);

inline std::uint64_t magic_of(std::uint64_t set) noexcept {
  if (set == 0 || set % 64 != 0) return 0;
  return __atomic_load_n(&reinterpret_cast<const Handle*>(set)->magic, __ATOMIC_RELAXED);
}

/// The handle that a set of the C interface is; null: a scope's set, another writer's, or null.
inline Handle* handle_of(std::uint64_t set) noexcept {
  return magic_of(set) == Handle::handle_magic ? reinterpret_cast<Handle*>(set) : nullptr;
}
inline Handle* handle_of(const void* set) noexcept {
  return handle_of(reinterpret_cast<std::uint64_t>(set));
}

/// The cells of the running thread; null: it has none yet, or no more.
inline Cells* cells_here(const Thread& self) noexcept {
  return labels::detail::has_arena(self) ? static_cast<Arena*>(self.arena)->handles.cells : nullptr;
}
/// The same, made at their first use. Null where `first_use` returns null.
Cells* first_cells(Thread& self) noexcept;
inline Cells* cells_of(Thread& self) noexcept {
  Cells* cells = cells_here(self);
  return __builtin_expect(cells != nullptr, 1) ? cells : first_cells(self);
}

/// The version in use, held; null: the handle has ended. `here`: cells_here().
Version* hold_version(const Handle& handle, const Cells* here) noexcept;

/// The version in use, held until the thread's next call of this: for pointers that are handed out.
/// Null: the handle has ended.
const Version* show_version_slowly(const Handle& handle, Thread& self) noexcept;
/// The same where the thread holds it already; else null.
inline const Version* shown_version(const Handle& handle, const Arena& arena) noexcept {
  const Version* shown = arena.handles.shown;
  return shown != nullptr && handle.storage() == shown->storage() ? shown : nullptr;
}
inline const Version* show_version(const Handle& handle, Thread& self) noexcept {
  if (labels::detail::has_arena(self)) {
    if (const Version* shown = shown_version(handle, *static_cast<Arena*>(self.arena)))
      return shown;
  }
  return show_version_slowly(handle, self);
}

/// A handle with these labels. Null: errno.
Handle* make_handle(labels::detail::Entries labels, std::size_t capacity) noexcept;
Handle* copy_handle(const Handle& from, std::size_t capacity) noexcept;

/// The caller's ownership ends. Its memory is used again when no thread has it in force.
void free_handle(Handle& handle) noexcept;

/// Makes what is in force, and what the thread counts as in force, agree with the slot, to which
/// the program may have assigned. Returns what is in force. `below`: a scope will be on top of it.
Words settle(Thread& self, bool below = false) noexcept;

/// The owner of `set`, which is not null, if it is a handle. Another writer's set may be shorter and
/// begin anywhere: this reads in the 64 bytes that it begins in, which are there.
__attribute__((no_sanitize("address", "thread"))) inline const void* owner_of(
    std::uint64_t set) noexcept {
  constexpr std::uint64_t last = sizeof(Handle) - 1;
  constexpr std::uint64_t owner = offsetof(Handle, cell) + offsetof(Cell, owner);
  return *reinterpret_cast<Cells* const*>((set | last) - (last - owner));
}

/// The same; of null, `Thread::owner_of_null`. No branch: programs put sets in force and null in turn.
__attribute__((no_sanitize("address", "thread"))) inline const void* owner_of(
    std::uint64_t set, const Thread& self) noexcept {
  constexpr std::uint64_t last = sizeof(Handle) - 1;
  constexpr std::uint64_t owner = offsetof(Handle, cell) + offsetof(Cell, owner);
  std::uint64_t end = set | last;
  const std::uint64_t of_null =
      reinterpret_cast<std::uint64_t>(&self.owner_of_null) + (last - owner);
#if defined(__x86_64__)
  __asm__("{testq %1, %1; cmovzq %2, %0|test %1, %1; cmovz %0, %2}"
          : "+r"(end)
          : "r"(set), "r"(of_null)
          : "cc");
#else
  end = set != 0 ? end : of_null;
#endif
  return *reinterpret_cast<Cells* const*>(end - (last - owner));
}

/// Whether `set`, which is not null, is a handle of this thread, which has cells, so that only the
/// slot changes when it is put in force. (The owner suffices: no other set has it there.)
inline bool is_simple(const Thread& self, std::uint64_t set) noexcept {
  return owner_of(set) == self.cells;
}

/// The running thread, if the set is a handle of its own and in force, or can be, by being in the
/// slot. Null: to be looked at more closely. A library does not ask for the address of its
/// thread-local variable here, which is a call: it compares the thread pointer. So that no cells have
/// that of a later thread, a thread clears it at its end, and a forked child that of all other threads.
inline Thread* thread_of_own(std::uint64_t set) noexcept {
#if VITRINE_PUBLISH_STATIC
  Thread& self = thread();
  return __builtin_expect(set != 0 && self.cells != nullptr && is_simple(self, set), 1) ? &self
                                                                                        : nullptr;
#else
  const Handle* handle = handle_of(set);
  if (__builtin_expect(handle == nullptr, 0)) return nullptr;
  const Cells& cells = *handle->cell.owner;
  const void* pointer = __atomic_load_n(&cells.thread_pointer, __ATOMIC_RELAXED);
  if (__builtin_expect(pointer != thread_pointer(), 0)) return nullptr;
  if (cells.thread == nullptr) __builtin_unreachable();
  return cells.thread;
#endif
}

/// A quick look whether `settle` has anything to do: false is certain. A thread's own handles count
/// as in force by being in the slot.
inline bool is_unsettled(const Thread& self) noexcept {
  const volatile std::uint64_t* now = labels::detail::words_in_force(self);
  const std::uint64_t set = now[1];
  return now[0] != 0 || self.cells == nullptr || (set != 0 && !is_simple(self, set));
}

/// The same, where `self` is thread_of_own(set): most programs edit what they have in force.
inline bool is_unsettled_beside(const Thread& self, std::uint64_t set) noexcept {
  const volatile std::uint64_t* now = labels::detail::words_in_force(self);
  const std::uint64_t other = now[1];
  return now[0] != 0 || (other != set && other != 0 && !is_simple(self, other));
}

/// Sets `Thread::cells`, and what shows libraries that it is set. (In this order a handler that comes
/// in between takes the longer way.)
inline void set_cells(Thread& self, Cells& cells) noexcept {
  cells.thread = &self;
  self.cells = self.owner_of_null = &cells;
  local_fence();
  __atomic_store_n(&cells.thread_pointer,
                   cells.listed && handles_exit() ? thread_pointer() : nullptr, __ATOMIC_RELAXED);
}
/// `cells`: what it may be; null: none yet.
inline void clear_cells(Thread& self, Cells* cells) noexcept {
  if (cells != nullptr) __atomic_store_n(&cells->thread_pointer, nullptr, __ATOMIC_RELAXED);
  self.owner_of_null = &self;
  local_fence();
  self.cells = nullptr;
}

/// custom_labels_replace where the slot and the thread's count do not agree, or other sets than
/// handles are involved. Returns what was in force.
std::uint64_t replace_slowly(Thread& self, std::uint64_t set) noexcept;

/// The thread holds no handle and no version any more: it ends, or it is a forked child.
void let_go_of_all(Thread& self) noexcept;

/// Applies an edit: observers, and handlers that edit too, see all of it or nothing. 0, ENOMEM or
/// EMSGSIZE. `old_value`, if not null, gets a copy of the first label's value from before; a null
/// `buf`: there was none.
int edit(Handle& handle, Edit change, String* old_value) noexcept;

/// An edit of one label.
int set_label(Handle& handle, String key, String value, String* old_value) noexcept;

/// An edit that must be undone.
struct Edited {
  int error;
  Version* before;  ///< out of use, and not given back
  Version* after;   ///< held
};
Edited edit_for_now(Handle& handle, Edit change) noexcept;

/// Puts `edited.before` back if the set is still as the edit left it; otherwise undoes the edit
/// label by label. 0, ENOMEM or EMSGSIZE.
int undo(Handle& handle, const Edited& edited, Edit change) noexcept;

}  // namespace vitrine::publish
