// Which handles a thread has in force, and keeps from being used again meanwhile.
#include <utility>

#include "publish/handle/record.hpp"

namespace vitrine::publish {
namespace {

Words normalised(const Words& words) noexcept {
  if (const Block* block = block_of(words)) return block->links.words;
  if (magic_of(words[1]) == Handle::ended_magic) return Words{0, 0};
  Handle* handle = handle_of(words[1]);
  HandleRecord* record = handle != nullptr ? record_of(*handle) : nullptr;
  return Words{reinterpret_cast<std::uint64_t>(record), words[1]};
}

/// A thread's own handles need no count: it looks here before it uses them again.
std::uint64_t hold_handle(Handle& handle, const Cells* here) noexcept {
  const auto address = reinterpret_cast<std::uint64_t>(&handle);
  if (handle.cell.owner == here) return address;
  handle.cell.hold(here);
  return address | HandleUse::counted;
}
void let_go_of_handle(std::uint64_t held, const Cells* here) noexcept {
  if ((held & HandleUse::counted) != 0)
    reinterpret_cast<Handle*>(held & ~HandleUse::counted)->cell.let_go(here);
}

int level_of(const HandleUse& use, const Handle& handle) noexcept {
  const auto address = reinterpret_cast<std::uint64_t>(&handle);
  int at = 0;
  while (at < HandleUse::levels && (use.held[at] & ~HandleUse::counted) != address) ++at;
  return at;
}

/// `handle` comes first among those that the thread has in force.
void count_as_held(HandleUse& use, Handle& handle) noexcept {
  int at = level_of(use, handle);
  std::uint64_t held = 0, out = 0;
  if (at < HandleUse::levels) {
    held = use.held[at];
  } else {
    held = hold_handle(handle, use.cells);
    // Where there are more levels than we count, the lowest is forgotten.
    out = use.held[--at];
  }
  for (; at > 0; --at) use.held[at] = use.held[at - 1];
  use.held[0] = held;
  let_go_of_handle(out, use.cells);
}

/// Changes HandleUse::held, except in a signal handler that interrupted such a change: the next call
/// outside such a handler then completes it.
template <class Change>
void change_held(Thread& self, HandleUse& use, Change&& change) noexcept {
  if (use.settling) return;
  use.settling = true;
  clear_cells(self, use.cells);
  local_fence();
  change();
  bool none = true;
  for (const std::uint64_t held : use.held) none = none && held == 0;
  if (none && !records_wanted() && use.cells != nullptr) set_cells(self, *use.cells);
  local_fence();
  use.settling = false;
}

void let_go_of_handles(HandleUse& use) noexcept {
  for (std::uint64_t& held : use.held) let_go_of_handle(std::exchange(held, 0), use.cells);
}

}  // namespace

Cells* first_cells(Thread& self) noexcept {
  Arena* arena = arena_of(self);
  if (arena == nullptr) return nullptr;
  Cells*& known = arena->handles.cells;
  if (known != nullptr) return known;
  Cells* made = make_cells();
  if (made == nullptr) return nullptr;
  Cells* none = nullptr;
  if (__atomic_compare_exchange_n(&known, &none, made, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    list_cells(*made);
    change_held(self, arena->handles, [] {});
    return made;
  }
  unmake_cells(made);  // a signal handler was quicker
  return none;
}

const Version* show_version_slowly(const Handle& handle, Thread& self) noexcept {
  Arena* arena = arena_of(self);
  if (is_unsettled(self)) settle(self);
  Version* version = hold_version(handle, cells_here(self));
  if (version == nullptr || arena == nullptr) {
    if (version != nullptr) version->let_go(nullptr);
    return version;
  }
  Version*& shown = arena->handles.shown;
  Version* before = nullptr;
  do {
    before = __atomic_load_n(&shown, __ATOMIC_RELAXED);
  } while (!local_compare_exchange(shown, before, version));
  if (before != nullptr) before->let_go(arena->handles.cells);
  return version;
}

bool is_in_force_here(const Cell& cell) noexcept {
  const auto* handle = reinterpret_cast<const Handle*>(reinterpret_cast<const char*>(&cell) -
                                                       offsetof(Handle, cell));
  const Thread& self = thread();
  return labels::detail::words_in_force(self)[1] == reinterpret_cast<std::uint64_t>(handle) ||
         level_of(static_cast<const Arena*>(self.arena)->handles, *handle) < HandleUse::levels;
}

Words settle(Thread& self, bool below) noexcept {
  const Words now = labels::detail::in_force(self);
  const Words right = normalised(now);
  if (!same(now, right)) labels::detail::put_in_force(self, right);
  // Without an arena there is nothing to take down, or no way to remember it.
  if (!labels::detail::has_arena(self) && (right[1] == 0 || arena_of(self) == nullptr))
    return right;
  HandleUse& use = static_cast<Arena*>(self.arena)->handles;
  if (right[1] == 0) {
    if (self.cells == nullptr) change_held(self, use, [&] { let_go_of_handles(use); });
  } else if (Handle* handle = handle_of(right[1])) {
    if ((below || handle->cell.owner != use.cells) &&
        (use.held[0] & ~HandleUse::counted) != right[1])
      change_held(self, use, [&] { count_as_held(use, *handle); });
  }
  return right;
}

std::uint64_t replace_slowly(Thread& self, std::uint64_t set) noexcept {
  Arena* arena = arena_of(self);
  const Words before = settle(self);
  // Without an arena nothing would take the set out of force when the thread ends.
  if (arena == nullptr) {
    if (set == 0) labels::detail::put_in_force(self, Words{0, 0});
    return before[1];
  }
  HandleUse& use = arena->handles;
  const Words words = normalised(Words{0, set});
  Handle* from = handle_of(before[1]);
  Handle* to = handle_of(words[1]);
  if (to != nullptr && to->cell.owner != use.cells)
    change_held(self, use, [&] { count_as_held(use, *to); });
  labels::detail::put_in_force(self, words);
  if (from == nullptr || from == to) return before[1];
  change_held(self, use, [&] {
    int at = level_of(use, *from);
    if (at == HandleUse::levels) return;
    const std::uint64_t out = use.held[at];
    for (; at + 1 < HandleUse::levels; ++at) use.held[at] = use.held[at + 1];
    use.held[at] = 0;
    let_go_of_handle(out, use.cells);
  });
  return before[1];
}

void let_go_of_all(Thread& self) noexcept {
  HandleUse& use = static_cast<Arena*>(self.arena)->handles;
  change_held(self, use, [&] { let_go_of_handles(use); });
  if (Version* shown = std::exchange(use.shown, nullptr)) shown->let_go(use.cells);
}

}  // namespace vitrine::publish
