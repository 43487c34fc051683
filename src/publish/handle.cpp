#include "publish/handle.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "publish/sanitizer.hpp"

namespace vitrine::publish {
namespace {

/// Strings are copied 16 bytes at a time, past their end.
constexpr std::size_t slack = 16;

char* writable(String string) noexcept {
  return const_cast<char*>(reinterpret_cast<const char*>(string.buf));
}

std::size_t version_bytes(std::size_t labels, std::size_t strings) noexcept {
  return sizeof(Version) + labels * sizeof(Label) + strings + slack;
}

char* strings_of(Version& version, std::size_t labels) noexcept {
  return reinterpret_cast<char*>(version.labels() + labels);
}

/// Copies `count` labels and all strings of `from`, whose space in `to` begins at `strings`.
inline void copy_whole(const Version& from, Version& to, std::size_t count,
                       char* strings) noexcept {
  struct Sixteen {
    std::uint64_t words[2];
  };
  const Label* old = from.labels();
  Label* copy = to.labels();
  const char* old_strings = reinterpret_cast<const char*>(old + count);
  const std::ptrdiff_t moved = strings - old_strings;
  for (std::size_t i = 0; i < count; ++i) {
    copy[i] = {{old[i].key.len, old[i].key.buf + moved},
               {old[i].value.len, old[i].value.buf + moved}};
  }
  const std::size_t used = from.used;
  if (used > 256) {
    std::memcpy(strings, old_strings, used);
    return;
  }
  for (std::size_t at = 0; at < used; at += sizeof(Sixteen))
    store(strings + at, load<Sixteen>(old_strings + at));
}

/// `from` with one label more, or another value of label `index`. Null: there is no memory for it,
/// or `from` has no room, or too much of it is not in use any more.
inline Version* successor(const Work& work, const Version& from, std::size_t index,
                          const Label& label) noexcept {
  const std::size_t count = from.count;
  const bool is_new = index == count;
  std::size_t used = from.used, live = from.live + label.value.len;
  bool in_place = false;
  if (is_new) {
    used += label.key.len + label.value.len;
    live += label.key.len;
  } else {
    const std::size_t old = from.labels()[index].value.len;
    in_place = label.value.len <= old;
    if (!in_place) used += label.value.len;
    live -= old;
  }
  if (count + is_new > labels::max_labels || used > 2 * live + 256 ||
      version_bytes(count + is_new, used) > bytes_of_class(from.size_class))
    return nullptr;
  auto* to = static_cast<Version*>(take(work, from.size_class));
  if (to == nullptr) return nullptr;
  char* strings = strings_of(*to, count + is_new);
  copy_whole(from, *to, count, strings);
  Label& changed = to->labels()[index];
  char* end = strings + from.used;
  if (is_new) {
    copy_bytes(end, reinterpret_cast<const char*>(label.key.buf), label.key.len);
    changed.key = {label.key.len, reinterpret_cast<unsigned char*>(end)};
    end += label.key.len;
  }
  if (in_place) end = writable(changed.value);
  copy_bytes(end, reinterpret_cast<const char*>(label.value.buf), label.value.len);
  changed.value = {label.value.len, reinterpret_cast<unsigned char*>(end)};
  to->count = static_cast<std::uint16_t>(count + is_new);
  to->used = static_cast<std::uint32_t>(used);
  to->live = static_cast<std::uint32_t>(live);
  return to;
}

/// Calls `visit` for each label that `base` has after `change`.
template <class Visit>
void each_label(const Label* base, std::size_t count, Edit change, Visit&& visit) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    // Another writer's set may have null ones.
    if (base[i].key.buf != nullptr && base[i].value.buf != nullptr &&
        find_label(change.labels, change.count, base[i].key) == nullptr)
      visit(base[i]);
  }
  for (std::size_t i = 0; i < change.count; ++i) {
    const Label& label = change.labels[i];
    if (label.value.buf != removed &&
        find_label(change.labels + i + 1, change.count - i - 1, label.key) == nullptr)
      visit(label);
  }
}

struct Made {
  int error;
  Version* version;
};

/// `base` after `change`, with nothing between its strings.
Made make_version(const Work& work, const Label* base, std::size_t count, Edit change) noexcept {
  std::size_t labels = 0, bytes = 0;
  each_label(base, count, change, [&](const Label& label) {
    ++labels;
    bytes += label.key.len + label.value.len;
  });
  const std::size_t total = version_bytes(labels, bytes);
  if (labels > labels::max_labels || total > large_block_max) return {EMSGSIZE, nullptr};
  auto* version = static_cast<Version*>(take(work, size_class_of(total)));
  if (version == nullptr) return {ENOMEM, nullptr};
  Label* to = version->labels();
  char* string = strings_of(*version, labels);
  const auto copy = [&](String from) {
    copy_bytes(string, reinterpret_cast<const char*>(from.buf), from.len);
    const String kept{from.len, reinterpret_cast<unsigned char*>(string)};
    string += from.len;
    return kept;
  };
  each_label(base, count, change, [&](const Label& label) {
    const String key = copy(label.key);
    *to++ = {key, copy(label.value)};
  });
  version->count = static_cast<std::uint16_t>(labels);
  version->used = static_cast<std::uint32_t>(bytes);
  version->live = static_cast<std::uint32_t>(bytes);
  return {0, version};
}

inline Made make_successor(const Work& work, const Version& from, Edit change) noexcept {
  if (change.count == 1 && change.labels[0].value.buf != removed) {
    const Label* found = find_label(from.labels(), from.count, change.labels[0].key);
    const std::size_t index =
        found != nullptr ? static_cast<std::size_t>(found - from.labels()) : from.count;
    if (Version* to = successor(work, from, index, change.labels[0])) return {0, to};
  }
  return make_version(work, from.labels(), from.count, change);
}

/// False: a handler changed the handle meanwhile.
inline bool swap_version(Handle& handle, const Version& from, const Version& to) noexcept {
  labels::detail::store_fence();
  sanitizer_release(&handle.now.first);
  return local_compare_exchange(handle.now, {from.storage(), from.count}, {to.storage(), to.count});
}

/// A version that the running thread works on. Its own are not used again while the operation is
/// under way, so nothing needs to be counted.
class Base {
 public:
  Base(const Handle& handle, const Work& work) noexcept : work_(work) {
    const std::uint64_t storage = handle.storage();
    if (storage != 0) version_ = Version::of(storage);
    if (__builtin_expect(storage != 0 && version_->owner != &work.cells(), 0)) {
      version_ = hold_version(handle, &work.cells());
      // Its turn may have come to one of ours.
      held_ = version_ != nullptr;
    }
  }
  Base(const Base&) = delete;
  Base& operator=(const Base&) = delete;
  ~Base() {
    if (__builtin_expect(held_, 0)) version_->let_go(&work_.cells());
  }
  [[nodiscard]] Version* get() const noexcept { return version_; }

 private:
  const Work& work_;
  Version* version_ = nullptr;
  bool held_ = false;
};

/// Makes versions until one takes the place of what it was made from, and calls
/// `done(before, after)`.
template <class Done>
inline int change_handle(Handle& handle, const Work& work, Edit change, String* old_value,
                         Done&& done) noexcept {
  while (true) {
    const Base base(handle, work);
    Version* before = base.get();
    if (before == nullptr) return EINVAL;  // it was freed
    if (__builtin_expect(old_value != nullptr, 0)) {
      *old_value = {0, nullptr};
      if (const Label* old = find_label(before->labels(), before->count, change.labels[0].key)) {
        *old_value = copy_for_caller(old->value);
        if (old_value->buf == nullptr) return ENOMEM;
      }
    }
    const Made made = make_successor(work, *before, change);
    if (__builtin_expect(made.version != nullptr, 1) &&
        __builtin_expect(swap_version(handle, *before, *made.version), 1)) {
      done(before, made.version);
      return 0;
    }
    if (made.version != nullptr) give_back(made.version, &work);
    if (old_value != nullptr) std::free(const_cast<unsigned char*>(old_value->buf));
    if (made.version == nullptr) {
      if (old_value != nullptr) *old_value = {0, nullptr};
      return made.error;
    }
  }
}

Handle* new_handle(const Work& work, Version* version, std::size_t capacity) noexcept {
  Cell* cell = take(work, handle_class);
  if (cell == nullptr) {
    give_back(version, &work);
    errno = ENOMEM;
    return nullptr;
  }
  auto* handle = reinterpret_cast<Handle*>(reinterpret_cast<char*>(cell) - offsetof(Handle, cell));
  cell->freed = false;
  handle->capacity = capacity;
  labels::detail::store_fence();
  sanitizer_release(&handle->now.first);
  __atomic_store_n(&handle->now.second, version->count, __ATOMIC_RELAXED);
  __atomic_store_n(&handle->now.first, version->storage(), __ATOMIC_RELEASE);
  __atomic_store_n(&handle->magic, Handle::handle_magic, __ATOMIC_RELEASE);
  return handle;
}

Words normalised(const Words& words) noexcept {
  if (const Block* block = block_of(words)) return block->links.words;
  if (magic_of(words[1]) == Handle::ended_magic) return Words{0, 0};
  return Words{0, words[1]};
}

/// `handle` comes first among those that the thread holds.
void count_as_held(HandleUse& use, Handle& handle) noexcept {
  int at = 0;
  while (at < HandleUse::levels && use.held[at] != &handle) ++at;
  Handle* out = nullptr;
  if (at == HandleUse::levels) {
    handle.cell.hold(use.cells);
    // Where there are more levels than we count, the lowest is forgotten.
    out = use.held[--at];
  }
  for (; at > 0; --at) use.held[at] = use.held[at - 1];
  use.held[0] = &handle;
  if (out != nullptr) out->cell.let_go(use.cells);
}

/// Changes HandleUse::held unless this is a handler that interrupted such a change: then the next
/// call that is not settles it.
template <class Change>
void change_held(HandleUse& use, Change&& change) noexcept {
  if (use.settling) return;
  use.settling = true;
  local_fence();
  change();
  local_fence();
  use.settling = false;
}

void let_go_of_handles(HandleUse& use) noexcept {
  for (Handle*& held : use.held) {
    if (Handle* handle = std::exchange(held, nullptr)) handle->cell.let_go(use.cells);
  }
}

}  // namespace

const unsigned char removed[1] = {0};

String copy_for_caller(String from) noexcept {
  auto* copy = static_cast<unsigned char*>(std::malloc(from.len + 1));
  if (copy == nullptr) return {0, nullptr};
  if (from.len != 0) std::memcpy(copy, from.buf, from.len);
  copy[from.len] = 0;
  return {from.len, copy};
}

Cells* first_cells(Thread& self) noexcept {
  Arena* arena = arena_of(self);
  if (arena == nullptr) return nullptr;
  Cells*& known = arena->handles.cells;
  if (known != nullptr) return known;
  Cells* made = make_cells();
  if (made == nullptr) return nullptr;
  Cells* none = nullptr;
  if (__atomic_compare_exchange_n(&known, &none, made, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    return made;
  unmake_cells(made);  // a signal handler was quicker
  return none;
}

Version* hold_version(const Handle& handle, const Cells* here) noexcept {
  while (true) {
    const std::uint64_t storage = handle.storage();
    if (storage == 0) return nullptr;
    Version* version = Version::of(storage);
    version->hold(here);
    if (handle.storage() == storage) return version;
    version->let_go(here);
  }
}

const Version* show_version_slowly(const Handle& handle, Thread& self) noexcept {
  Arena* arena = arena_of(self);
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

Handle* make_handle(labels::detail::Entries from, std::size_t capacity) noexcept {
  Cells* cells = cells_of(thread());
  if (cells == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  const Work work(*cells);
  const Made made =
      make_version(work, reinterpret_cast<const Label*>(from.data), from.size, {nullptr, 0});
  if (made.version == nullptr) {
    errno = made.error;
    return nullptr;
  }
  return new_handle(work, made.version, capacity);
}

Handle* copy_handle(const Handle& from, std::size_t capacity) noexcept {
  Cells* cells = cells_of(thread());
  if (cells == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  const Work work(*cells);
  const Base base(from, work);
  const Version* version = base.get();
  if (version == nullptr) return make_handle({nullptr, 0}, capacity);
  auto* copy = static_cast<Version*>(take(work, version->size_class));
  if (copy == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  copy_whole(*version, *copy, version->count, strings_of(*copy, version->count));
  copy->count = version->count;
  copy->used = version->used;
  copy->live = version->live;
  return new_handle(work, copy, capacity);
}

void free_handle(Handle& handle) noexcept {
  if (__atomic_exchange_n(&handle.cell.freed, true, __ATOMIC_RELAXED)) return;
  Cells* cells = cells_here(thread());
  if (cells == nullptr) return give_back(&handle.cell, nullptr);
  const Work work(*cells);
  give_back(&handle.cell, &work);
}

/// The handle ends: nobody holds it. A thread to whose slot the program assigned it may still look
/// here: it finds no labels.
Cell* detach(Cell* cell) noexcept {
  auto* handle = reinterpret_cast<Handle*>(reinterpret_cast<char*>(cell) - offsetof(Handle, cell));
  __atomic_store_n(&handle->magic, Handle::ended_magic, __ATOMIC_RELAXED);
  while (true) {
    const std::uint64_t storage = handle->storage();
    const std::uint64_t count = __atomic_load_n(&handle->now.second, __ATOMIC_RELAXED);
    if (storage == 0) return nullptr;
    if (local_compare_exchange(handle->now, {storage, count}, {0, 0})) return Version::of(storage);
  }
}

Words settle(Thread& self) noexcept {
  const Words now = labels::detail::in_force(self);
  const Words right = normalised(now);
  if (!same(now, right)) labels::detail::put_in_force(self, right);
  if (!labels::detail::has_arena(self)) return right;
  HandleUse& use = static_cast<Arena*>(self.arena)->handles;
  if (right[1] == 0) {
    change_held(use, [&] { let_go_of_handles(use); });
  } else if (Handle* handle = handle_of(right[1])) {
    if (use.held[0] != handle) change_held(use, [&] { count_as_held(use, *handle); });
  }
  return right;
}

std::uint64_t replace_slowly(Thread& self, std::uint64_t set) noexcept {
  Arena* arena = arena_of(self);
  const Words before = settle(self);
  // Without an arena nothing would take the set out of force when the thread ends.
  if (set != 0 && arena == nullptr) return before[1];
  const Words words = normalised(Words{0, set});
  Handle* from = handle_of(before[1]);
  if (Handle* to = handle_of(words[1]))
    change_held(arena->handles, [&] { count_as_held(arena->handles, *to); });
  labels::detail::put_in_force(self, words);
  if (from == nullptr || before[1] == words[1] || arena == nullptr) return before[1];
  HandleUse& use = arena->handles;
  change_held(use, [&] {
    int at = 0;
    while (at < HandleUse::levels && use.held[at] != from) ++at;
    if (at == HandleUse::levels) return;
    for (; at + 1 < HandleUse::levels; ++at) use.held[at] = use.held[at + 1];
    use.held[at] = nullptr;
    from->cell.let_go(use.cells);
  });
  return before[1];
}

void let_go_of_all(Arena& arena) noexcept {
  HandleUse& use = arena.handles;
  let_go_of_handles(use);
  if (Version* shown = std::exchange(use.shown, nullptr)) shown->let_go(use.cells);
}

int edit(Handle& handle, Edit change, String* old_value) noexcept {
  Cells* cells = cells_of(thread());
  if (cells == nullptr) return ENOMEM;
  const Work work(*cells);
  return change_handle(handle, work, change, old_value,
                       [&](Version* before, Version*) { give_back(before, &work); });
}

Edited edit_for_now(Handle& handle, Edit change) noexcept {
  Cells* cells = cells_of(thread());
  if (cells == nullptr) return {ENOMEM, nullptr, nullptr};
  const Work work(*cells);
  Edited edited{0, nullptr, nullptr};
  edited.error = change_handle(handle, work, change, nullptr, [&](Version* before, Version* after) {
    after->hold(cells);
    edited.before = before;
    edited.after = after;
  });
  return edited;
}

int undo(Handle& handle, const Edited& edited, Edit change) noexcept {
  Cells* cells = cells_here(thread());
  // The callback may have ended on a thread without labels.
  if (cells == nullptr) cells = cells_of(thread());
  int error = 0;
  if (swap_version(handle, *edited.after, *edited.before)) {
    if (cells != nullptr) {
      const Work work(*cells);
      edited.after->let_go(cells);
      give_back(edited.after, &work);
    } else {
      edited.after->let_go(nullptr);
      give_back(edited.after, nullptr);
    }
    return 0;
  }
  // The callback, or a handler, changed the set: only our labels go back.
  for (std::size_t i = 0; i < change.count && error == 0; ++i) {
    Label label{change.labels[i].key, {0, removed}};
    if (const Label* old = find_label(edited.before->labels(), edited.before->count, label.key))
      label.value = old->value;
    error = edit(handle, {&label, 1}, nullptr);
  }
  edited.after->let_go(cells);
  if (cells == nullptr) {
    give_back(edited.before, nullptr);
  } else {
    const Work work(*cells);
    give_back(edited.before, &work);
  }
  return error;
}

}  // namespace vitrine::publish
