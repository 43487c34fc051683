// Handle: a label set of the C interface. It stays where it is while its labels change.
//
// Observers see the ABI's 24 bytes. The labels they point at lie in an immutable array; a change
// makes another array and swaps `storage`, one store. `count` is the number of slots, not of
// labels: slots that are not used have a null key, which observers skip, so that it can stand still
// while `storage` changes. It only grows, and only after `storage` has an array that long.
//
// Handles and arrays live in arenas, pinned, so an observer that still reads an array after the
// change reads what it was.
#pragma once

#include <customlabels.h>

#include <atomic>
#include <cstdint>

#include "publish/block.hpp"

namespace vitrine::publish {

using String = custom_labels_string_t;
using Label = custom_labels_label_t;

/// A run of slots and, behind them, the bytes that they refer to.
struct Array {
  Page* page;
  std::uint64_t slots;

  [[nodiscard]] Label* labels() noexcept { return reinterpret_cast<Label*>(this + 1); }
  static Array* of(std::uint64_t storage) noexcept {
    return storage == 0 ? nullptr : reinterpret_cast<Array*>(storage) - 1;
  }
};
static_assert(sizeof(Array) == 16);

struct Handle {
  abi::custom_labels::SetV1 set;
  std::uint64_t magic;  ///< where sets of scopes have theirs
  Page* page;
  std::atomic<std::uint32_t> uses;  ///< threads that have it in force, plus `freed`

  static constexpr std::uint64_t handle_magic = 0x5ce7'4a2d'1e00'c0deULL;
  static constexpr std::uint32_t freed = 1U << 31;
};
static_assert(sizeof(Handle) <= 64);

/// The handle that a set of the C interface is; null: a scope's set, another writer's, or null.
Handle* handle_of(const void* set) noexcept;

/// A handle with these labels (null keys are left out) and at least `slots` slots. Null: errno.
Handle* make_handle(labels::detail::Entries labels, std::size_t slots) noexcept;

/// The caller's ownership ends. It goes away now, or when the last thread takes it out of force.
void free_handle(Handle& handle) noexcept;

/// A thread has the set of `words` in force, and no more. (Sets of scopes count their users
/// elsewhere: only handles matter here.)
void hold(Words words) noexcept;
void let_go(Words words) noexcept;

/// As the `buf` of a value in an edit: the label is to be removed.
extern const unsigned char removed[1];

/// A change of several labels at once. Of two with one key the last counts.
struct Edit {
  const Label* labels;
  std::size_t count;
};

/// The arrays before and after an edit, each pinned once for the holder of this.
struct Edited {
  int error;
  Array* before;
  Array* after;

  void done() const noexcept {
    if (error != 0) return;
    before->page->unpin();
    after->page->unpin();
  }
};

/// Applies an edit: observers, and handlers that edit too, see all of it or nothing.
Edited edit(Handle& handle, Edit change) noexcept;

/// Puts `edited.before` back if the set is still as the edit left it. False: it has changed since.
bool put_back(Handle& handle, const Edited& edited) noexcept;

/// The label with this key among `count`, or null.
const Label* find_label(const Label* labels, std::size_t count, String key) noexcept;

/// 0, EINVAL or EMSGSIZE.
int check_key(String key) noexcept;
int check_value(String value) noexcept;

}  // namespace vitrine::publish
