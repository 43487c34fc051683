#include "publish/handle.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "publish/sanitizer.hpp"

namespace vitrine::publish {
namespace {

/// 16 bytes, moved as one. Versions consist of them (strings begin on multiples of 16 from the
/// first), and are written and copied so: a load that covers several recent stores would wait until
/// they reached the cache.
using Unit = unsigned long long __attribute__((vector_size(16)));
static_assert(sizeof(String) == sizeof(Unit) && offsetof(String, len) == 0 &&
              offsetof(String, buf) == 8);

/// Strings are copied two units at a time, past their end. (And empty ones refer to something.)
constexpr std::size_t slack = sizeof(Unit);

constexpr std::size_t room_for(std::size_t bytes) noexcept {
  return (bytes + sizeof(Unit) - 1) / sizeof(Unit) * sizeof(Unit);
}

/// Copies `size` bytes, and zeroes up to a whole unit.
inline void put_bytes(char* to, const char* from, std::size_t size) noexcept {
  for (; size > sizeof(Unit); size -= sizeof(Unit)) {
    store(to, load<Unit>(from));
    to += sizeof(Unit);
    from += sizeof(Unit);
  }
  std::uint64_t head = 0, tail = 0;
  if (size > 8) {
    head = load<std::uint64_t>(from);
    tail = load<std::uint64_t>(from + size - 8) >> (8 * (16 - size));
  } else if (size == 8) {
    head = load<std::uint64_t>(from);
  } else if (size >= 4) {
    head = load<std::uint32_t>(from) | std::uint64_t{load<std::uint32_t>(from + size - 4)}
                                           << (8 * (size - 4));
  } else if (size != 0) {
    const auto byte = [from](std::size_t at) {
      return std::uint64_t{static_cast<unsigned char>(from[at])} << (8 * at);
    };
    head = byte(0) | byte(size / 2) | byte(size - 1);
  } else {
    return;
  }
  store(to, Unit{head, tail});
}

/// Copies a string to `to`, and makes `string` refer to the copy.
inline void put_string(String& string, char* to, String from) noexcept {
  put_bytes(to, reinterpret_cast<const char*>(from.buf), from.len);
  store(reinterpret_cast<char*>(&string), Unit{from.len, reinterpret_cast<std::uint64_t>(to)});
}

char* writable(String string) noexcept {
  return const_cast<char*>(reinterpret_cast<const char*>(string.buf));
}

std::size_t version_bytes(std::size_t labels, std::size_t strings) noexcept {
  return sizeof(Version) + labels * sizeof(Label) + strings + slack;
}

char* strings_of(Version& version, std::size_t labels) noexcept {
  return reinterpret_cast<char*>(version.labels() + labels);
}

inline std::size_t room_of_value(const Version& version, std::size_t index) noexcept {
  const Label* labels = version.labels();
  const unsigned char* end =
      index + 1 < version.count
          ? labels[index + 1].key.buf
          : reinterpret_cast<const unsigned char*>(labels + version.count) + version.used;
  return static_cast<std::size_t>(end - labels[index].value.buf);
}

/// Copies the labels and strings of `from`; in `to` the strings begin at `strings`.
inline void copy_whole(const Version& from, Version& to, char* strings) noexcept {
  const char* old = reinterpret_cast<const char*>(from.labels());
  char* copy = reinterpret_cast<char*>(to.labels());
  const char* old_strings = old + from.count * sizeof(Label);
  const Unit moved{0, static_cast<unsigned long long>(strings - old_strings)};
  for (; old != old_strings; old += sizeof(Label), copy += sizeof(Label)) {
    store(copy, load<Unit>(old) + moved);
    store(copy + sizeof(Unit), load<Unit>(old + sizeof(Unit)) + moved);
  }
  const std::size_t used = from.used;
  if (__builtin_expect(used > 512, 0)) {
    std::memcpy(strings, old_strings, used);
    return;
  }
  for (std::size_t at = 0; at < used; at += 2 * sizeof(Unit)) {
    const Unit one = load<Unit>(old_strings + at);
    const Unit other = load<Unit>(old_strings + at + sizeof(Unit));
    store(strings + at, one);
    store(strings + at + sizeof(Unit), other);
  }
}

/// Too much of the room is not in use: copying it costs more than making it anew.
bool is_sparse(std::size_t used, std::size_t live, std::size_t labels) noexcept {
  return used > 2 * live + 32 * labels + 256;
}

/// `from` with a few labels more, and other values of some that fit where the old ones were. Null:
/// the change is another, or there is no memory for it.
Version* successor(const Work& work, const Version& from, Edit change) noexcept {
  constexpr std::size_t changes_max = 8;
  if (change.count > changes_max) return nullptr;
  std::size_t index[changes_max];
  std::size_t count = from.count, used = from.used, live = from.live;
  for (std::size_t i = 0; i < change.count; ++i) {
    const Label& label = change.labels[i];
    if (label.value.buf == removed) return nullptr;
    std::size_t at = find_index(from.labels(), from.count, label.key);
    live += label.value.len;
    if (at < from.count) {
      if (label.value.len > room_of_value(from, at)) return nullptr;
      live -= from.labels()[at].value.len;
    } else {
      at = count++;
      used += room_for(label.key.len) + room_for(label.value.len);
      live += label.key.len;
    }
    index[i] = at;
    for (std::size_t j = 0; j < i; ++j) {
      if (index[j] == at || (at >= from.count && same_key(change.labels[j].key, label.key)))
        return nullptr;
    }
  }
  const std::size_t total = version_bytes(count, used);
  if (count > labels::max_labels || total > large_block_max || is_sparse(used, live, count))
    return nullptr;
  auto* to = static_cast<Version*>(take(work, size_class_of(total)));
  if (to == nullptr) return nullptr;
  char* strings = strings_of(*to, count);
  copy_whole(from, *to, strings);
  char* end = strings + from.used;
  for (std::size_t i = 0; i < change.count; ++i) {
    const Label& label = change.labels[i];
    Label& changed = to->labels()[index[i]];
    char* value = writable(changed.value);
    if (index[i] >= from.count) {
      put_string(changed.key, end, label.key);
      value = end + room_for(label.key.len);
      end = value + room_for(label.value.len);
    }
    put_string(changed.value, value, label.value);
  }
  to->count = static_cast<std::uint16_t>(count);
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
  std::size_t labels = 0, used = 0, live = 0;
  each_label(base, count, change, [&](const Label& label) {
    ++labels;
    used += room_for(label.key.len) + room_for(label.value.len);
    live += label.key.len + label.value.len;
  });
  const std::size_t total = version_bytes(labels, used);
  if (labels > labels::max_labels || total > large_block_max) return {EMSGSIZE, nullptr};
  auto* version = static_cast<Version*>(take(work, size_class_of(total)));
  if (version == nullptr) return {ENOMEM, nullptr};
  Label* to = version->labels();
  char* string = strings_of(*version, labels);
  each_label(base, count, change, [&](const Label& label) {
    put_string(to->key, string, label.key);
    string += room_for(label.key.len);
    put_string(to->value, string, label.value);
    string += room_for(label.value.len);
    ++to;
  });
  version->count = static_cast<std::uint16_t>(labels);
  version->used = static_cast<std::uint32_t>(used);
  version->live = static_cast<std::uint32_t>(live);
  return {0, version};
}

inline Made make_successor(const Work& work, const Version& from, Edit change) noexcept {
  if (Version* to = successor(work, from, change)) return {0, to};
  return make_version(work, from.labels(), from.count, change);
}

/// False: a handler changed the handle meanwhile.
inline bool swap_version(Handle& handle, const Version& from, const Version& to) noexcept {
  labels::detail::store_fence();
  sanitizer_release(&handle.now.first);
  // Where the count stays, one word is enough.
  if (from.count == to.count)
    return local_compare_exchange(handle.now.first, from.storage(), to.storage());
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

/// Gives a label that is there another value, in the usual case, and fast. False: it did nothing,
/// `edit` must.
__attribute__((always_inline)) inline bool replace_value(Handle& handle, Cells& cells, String key,
                                                         String value) noexcept {
  const Work work(cells);
  if (__builtin_expect(!work.alone(), 0)) return false;
  const std::uint64_t storage = handle.storage();
  if (storage == 0) return false;
  Version& from = *Version::of(storage);
  if (__builtin_expect(from.owner != &cells, 0)) return false;
  const std::size_t index = find_index(from.labels(), from.count, key);
  if (__builtin_expect(index == from.count, 0)) return false;
  const std::size_t old = from.labels()[index].value.len;
  // In as many units as before: there is room, and not too much of it.
  if (__builtin_expect(room_for(value.len) != room_for(old), 0)) return false;
  Cells::Queue& queue = cells.queues[from.size_class];
  if (__builtin_expect(queue.first == queue.fenced, 0)) fence_queue(queue);
  auto* to = static_cast<Version*>(queue.cells[queue.first % Cells::Queue::capacity]);
  if (__builtin_expect(queue.last - queue.first <= delay_of(0), 0) ||
      __builtin_expect(to->is_held(), 0))
    return false;
  ++queue.first;
  copy_whole(from, *to, strings_of(*to, from.count));
  String& changed = to->labels()[index].value;
  put_string(changed, writable(changed), value);
  to->count = from.count;
  to->used = from.used;
  to->live = from.live + static_cast<std::uint32_t>(value.len - old);
  labels::detail::store_fence();
  sanitizer_release(&handle.now.first);
  const bool done = local_compare_exchange(handle.now.first, storage, to->storage());
  // There is room: one was taken. In a queue, what was not put in use is like what no longer is.
  queue.cells[queue.last % Cells::Queue::capacity] = done ? &from : to;
  ++queue.last;
  return done;
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

/// Changes HandleUse::held unless this is a handler that interrupted such a change: then the next
/// call that is not settles it.
template <class Change>
void change_held(Thread& self, HandleUse& use, Change&& change) noexcept {
  if (use.settling) return;
  use.settling = true;
  self.cells = nullptr;
  local_fence();
  change();
  bool none = true;
  for (const std::uint64_t held : use.held) none = none && held == 0;
  if (none) self.cells = use.cells;
  local_fence();
  use.settling = false;
}

void let_go_of_handles(HandleUse& use) noexcept {
  for (std::uint64_t& held : use.held) let_go_of_handle(std::exchange(held, 0), use.cells);
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
  if (__atomic_compare_exchange_n(&known, &none, made, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    change_held(self, arena->handles, [] {});
    return made;
  }
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

Handle* make_handle(labels::detail::Entries from, std::size_t capacity) noexcept {
  Cells* cells = cells_of(thread_once());
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
  Cells* cells = cells_of(thread_once());
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
  copy_whole(*version, *copy, strings_of(*copy, version->count));
  copy->count = version->count;
  copy->used = version->used;
  copy->live = version->live;
  return new_handle(work, copy, capacity);
}

void free_handle(Handle& handle) noexcept {
  if (__atomic_exchange_n(&handle.cell.freed, true, __ATOMIC_RELAXED)) return;
  Cells* cells = cells_here(thread_once());
  if (cells == nullptr) return give_back(&handle.cell, nullptr);
  const Work work(*cells);
  give_back(&handle.cell, &work);
}

bool is_in_force_here(const Cell& cell) noexcept {
  const auto* handle = reinterpret_cast<const Handle*>(reinterpret_cast<const char*>(&cell) -
                                                       offsetof(Handle, cell));
  const Thread& self = thread();
  return labels::detail::words_in_force(self)[1] == reinterpret_cast<std::uint64_t>(handle) ||
         level_of(static_cast<const Arena*>(self.arena)->handles, *handle) < HandleUse::levels;
}

/// The handle ends: nobody holds it. A thread to whose slot the program assigned it may still look
/// here: it finds no labels.
Cell* detach(Cell& cell) noexcept {
  auto* handle = reinterpret_cast<Handle*>(reinterpret_cast<char*>(&cell) - offsetof(Handle, cell));
  __atomic_store_n(&handle->magic, Handle::ended_magic, __ATOMIC_RELAXED);
  while (true) {
    const std::uint64_t storage = handle->storage();
    const std::uint64_t count = __atomic_load_n(&handle->now.second, __ATOMIC_RELAXED);
    if (storage == 0) return nullptr;
    if (local_compare_exchange(handle->now, {storage, count}, {0, 0})) return Version::of(storage);
  }
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

int edit(Handle& handle, Edit change, String* old_value) noexcept {
  Cells* cells = cells_of(thread_once());
  if (cells == nullptr) return ENOMEM;
  const Work work(*cells);
  return change_handle(handle, work, change, old_value,
                       [&](Version* before, Version*) { give_back(before, &work); });
}

__attribute__((noinline)) int set_label_slowly(Handle& handle, String key, String value,
                                               String* old_value) noexcept {
  const Label label{key, value};
  return edit(handle, {&label, 1}, old_value);
}

int set_label(Handle& handle, String key, String value, Thread& self) noexcept {
  Cells* cells = static_cast<Cells*>(self.cells);
  if (__builtin_expect(cells != nullptr, 1) && replace_value(handle, *cells, key, value)) return 0;
  return set_label_slowly(handle, key, value, nullptr);
}

Edited edit_for_now(Handle& handle, Edit change) noexcept {
  Cells* cells = cells_of(thread_once());
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
  Cells* cells = cells_here(thread_once());
  // The callback may have ended on a thread without labels.
  if (cells == nullptr) cells = cells_of(thread_once());
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
