// The C interface, except for what calls back (run_with.cpp).
#include <customlabels.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "publish/base/thread.hpp"
#include "publish/handle/pinned_entries.hpp"
#include "publish/handle/record.hpp"

/// In as few cache lines of code as there can be: calls of a few instructions, in which programs
/// spend time.
#define VITRINE_DETAIL_HOT __attribute__((aligned(128)))

namespace vitrine::publish {
namespace {

using Set = custom_labels_labelset_t;
using labels::detail::words_in_force;

int why_not_editable(const Set* set) noexcept {
  return set == nullptr ? EINVAL : EROFS;
}

__attribute__((noinline)) void settle_slowly(Thread& self) noexcept {
  settle(self);
}
/// The program may have assigned to the slot since the last call.
inline void settle_if_need_be(Thread& self) noexcept {
  if (__builtin_expect(is_unsettled(self), 0)) settle_slowly(self);
}

/// The rest of custom_labels_replace.
__attribute__((cold)) Set* replace_slowly(Set* set) noexcept {
  return reinterpret_cast<Set*>(
      publish::replace_slowly(thread_once(), reinterpret_cast<std::uint64_t>(set)));
}

/// Changes one word of the slot, where the other is 0. Returns the set that was in force.
inline Set* put_set_in_force(Thread& self, std::uint64_t set) noexcept {
  auto* word = reinterpret_cast<volatile std::uint64_t*>(&self.slot) + 1;
  const std::uint64_t before = *word;
  labels::detail::store_fence();
  *word = set;
  local_fence();
  return reinterpret_cast<Set*>(before);
}

/// custom_labels_replace(nullptr), whatever is in force: with cells, nothing is counted.
inline Set* put_nothing_in_force() noexcept {
  Thread& self = thread_once();
  void* const volatile& cells = self.cells;  // the other way does not load it: it compares
  if (__builtin_expect(cells == nullptr, 0)) return replace_slowly(nullptr);
  const std::uint64_t before = words_in_force(self)[1];
  labels::detail::put_in_force(self, Words{0, 0});
  return reinterpret_cast<Set*>(before);
}

/// Longer ones are compared by a call.
constexpr std::size_t short_string = 64;

/// Gives a label that is there another value: the usual case, with a short key and a short value in as
/// many units as the old one. `in_units`: one (Version::in_units). False: it did nothing. It calls no
/// function, and is done with each object before it turns to the next: it has few registers to save.
template <bool in_units>
__attribute__((always_inline)) inline bool replace_value(Handle& handle, Cells& cells, String key,
                                                         String value) noexcept {
  const std::uint64_t storage = handle.storage();
  if (__builtin_expect(storage == 0, 0)) return false;
  Version& from = *Version::of(storage);
  if (__builtin_expect(from.owner != &cells, 0)) return false;
  if (in_units && __builtin_expect(!from.in_units(), 0)) return false;
  const Label* old = from.labels();
  for (const Label* const end = old + from.count;; ++old) {
    if (__builtin_expect(old == end, 0)) return false;
    if (in_units ? same_unit(old->key, key) : same_key(old->key, key)) break;
  }
  // In as many units as before: there is room, and not too much of it.
  if (!in_units && __builtin_expect(room_for(value.len) != room_for(old->value.len), 0))
    return false;
  Cells::Queue& queue = queue_of(cells, from);
  const std::uint32_t first = queue.first, last = queue.last;
  if (__builtin_expect(last - first <= delay_of(0), 0)) return false;
  if (__builtin_expect(first == queue.fenced, 0)) fence_queue(queue);
  auto* to = static_cast<Version*>(queue.cells[first % Cells::Queue::capacity]);
  if (__builtin_expect(to->is_held(), 0)) return false;
  const bool alike = to->layout == from.layout && from.layout != 0;
  if (__builtin_expect(!alike && from.used > copied_by_units, 0)) return false;
  // There is room: one is taken. The queue is not read before this is done.
  queue.first = first + 1;
  queue.cells[last % Cells::Queue::capacity] = &from;
  queue.last = last + 1;
  const std::uint64_t moved = to->storage() - storage;
  if (__builtin_expect(alike, 1)) {
    in_units ? copy_unit_values(from, moved) : copy_values(from, moved);
  } else {
    copy_labels(from, *to, from.count, moved);
    copy_units(strings_of(*to, from.count), strings_of(from, from.count), from.used);
    to->layout = from.layout;
    to->count = from.count;
    to->used = from.used;
    to->live = from.live;
  }
  if (!in_units) to->live = from.live;
  reinterpret_cast<Label*>(reinterpret_cast<std::uint64_t>(old) + moved)->value.len = value.len;
  put_bytes(writable(old->value) + moved, reinterpret_cast<const char*>(value.buf), value.len);
  labels::detail::store_fence();
  sanitizer_release(&handle.now.first);
  if (__builtin_expect(local_compare_exchange(handle.now.first, storage, storage + moved), 1))
    return true;
  // What was not put in use is like what no longer is.
  cells.last_used->cells[(cells.last_used->last - 1) % Cells::Queue::capacity] = to;
  return false;
}

/// custom_labels_set with all checks.
__attribute__((cold)) int set_checked(Set* set, String key, String value,
                                      String* old_value_out) noexcept {
  Handle* handle = handle_of(set);
  if (handle == nullptr) return why_not_editable(set);
  if (const int error = check_key(key)) return error;
  if (const int error = check_value(value)) return error;
  Thread& self = thread_once();
  settle_if_need_be(self);
  Cells* cells = cells_here(self);
  if (cells != nullptr && key.len < short_string && value.len < short_string &&
      value.buf != nullptr && old_value_out == nullptr && record_of(*handle) == nullptr) {
    const Work work(*cells);
    if (work.alone() && replace_value<false>(*handle, *cells, key, value)) return 0;
  }
  return set_label(*handle, key, value, old_value_out);
}

Words words_of(const Set* set) noexcept {
  return Words{0, reinterpret_cast<std::uint64_t>(set)};
}

__attribute__((always_inline)) inline const Label* label_of(const Version& version,
                                                            String key) noexcept {
  const std::size_t index = find_index(version.labels(), version.count, key);
  return index < version.count ? version.labels() + index : nullptr;
}

/// custom_labels_get where the thread was not given a pointer into the set before.
__attribute__((cold)) const Label* get_first(const Set* set, String key) noexcept {
  if (key.buf == nullptr) return nullptr;
  if (const Handle* handle = handle_of(set)) {
    const Version* version = show_version(*handle, thread_once());
    return version != nullptr ? label_of(*version, key) : nullptr;
  }
  const PinnedEntries entries(words_of(set));
  return find_label(reinterpret_cast<const Label*>(entries.get().data), entries.get().size, key);
}

}  // namespace

// In the namespace, as a using-directive would mix its names with those of a program that has the
// library as one header. Of their visibility in the declarations g++ does not know here.
extern "C" {

CUSTOM_LABELS_EXPORT Set* custom_labels_current() {
  // Not by the variable's public name: where an executable exports a variable of that name, musl resolves
  // a library's references to that one.
  return reinterpret_cast<Set*>(words_in_force(thread())[1]);
}

CUSTOM_LABELS_EXPORT const custom_labels_label_t* custom_labels_get(Set* set, String key) {
  const Thread* self = thread_of_own(reinterpret_cast<std::uint64_t>(set));
  if (__builtin_expect(self != nullptr && key.buf != nullptr && key.len < short_string, 1)) {
    const Version* version =
        shown_version(*reinterpret_cast<Handle*>(set), *static_cast<const Arena*>(self->arena));
    if (__builtin_expect(version != nullptr, 1)) return label_of(*version, key);
  }
  return get_first(set, key);
}

CUSTOM_LABELS_EXPORT VITRINE_DETAIL_HOT int custom_labels_set(Set* set, String key, String value,
                                                              String* old_value_out) {
  const auto words = reinterpret_cast<std::uint64_t>(set);
  Thread* self = thread_of_own(words);
  // A handle with a record may outlive the program's wish for records.
  if (__builtin_expect(self != nullptr && !is_unsettled_beside(*self, words) &&
                           reinterpret_cast<Handle*>(set)->cell.size_class == handle_class &&
                           key.buf != nullptr && value.buf != nullptr &&
                           value.len <= sizeof(Unit) && old_value_out == nullptr,
                       1)) {
#if VITRINE_PUBLISH_STATIC
    auto& cells = *static_cast<Cells*>(self->cells);
#else
    Cells& cells = *reinterpret_cast<Handle*>(set)->cell.owner;  // the same, by one load
#endif
    if (__builtin_expect(cells.level == 0, 1)) {
      String saved = key;  // in memory: registers are for what is done if all goes well
      __asm__ volatile("" : "+m"(saved));
      // As Work does; it is known to be alone.
      __atomic_store_n(&cells.level, 1, __ATOMIC_RELAXED);
      local_fence();
      const bool done = replace_value<true>(*reinterpret_cast<Handle*>(set), cells, key, value);
      local_fence();
      __atomic_store_n(&cells.level, 0, __ATOMIC_RELAXED);
      if (__builtin_expect(done, 1)) return 0;
      return set_checked(set, saved, value, nullptr);
    }
  }
  return set_checked(set, key, value, old_value_out);
}

CUSTOM_LABELS_EXPORT void custom_labels_delete(Set* set, String key) {
  int error = 0;
  Handle* handle = handle_of(set);
  if (handle == nullptr) {
    error = why_not_editable(set);
  } else if ((error = check_key(key)) == 0 && custom_labels_get(set, key) != nullptr) {
    settle_if_need_be(thread_once());
    const Label label{key, {0, removed}};
    error = edit(*handle, {&label, 1}, nullptr);
  }
  if (error != 0) errno = error;
}

CUSTOM_LABELS_EXPORT Set* custom_labels_new(std::size_t capacity) {
  return custom_labels_clone_with_capacity(nullptr, capacity);
}

CUSTOM_LABELS_EXPORT Set* custom_labels_clone(const Set* set) {
  return custom_labels_clone_with_capacity(set, 0);
}

CUSTOM_LABELS_EXPORT Set* custom_labels_clone_with_capacity(const Set* set, std::size_t capacity) {
  if (capacity > labels::max_labels) {
    errno = ENOMEM;
    return nullptr;
  }
  settle_if_need_be(thread_once());
  if (const Handle* handle = handle_of(set))
    return reinterpret_cast<Set*>(copy_handle(*handle, capacity));
  const PinnedEntries entries(words_of(set));
  return reinterpret_cast<Set*>(make_handle(entries.get(), capacity));
}

CUSTOM_LABELS_EXPORT void custom_labels_free(Set* set) {
  Handle* handle = handle_of(set);
  if (handle == nullptr) return;
  Thread& self = thread_once();
  settle_if_need_be(self);
  if (words_in_force(self)[1] == reinterpret_cast<std::uint64_t>(set))
    custom_labels_replace(nullptr);
  free_handle(*handle);
}

CUSTOM_LABELS_EXPORT VITRINE_DETAIL_HOT Set* custom_labels_replace(Set* set) {
  // Nothing, or handles without a record.
  const auto to = reinterpret_cast<std::uint64_t>(set);
#if VITRINE_PUBLISH_STATIC
  // is_simple, and no record, by one comparison: an owner and a record do not add up to the cells.
  // Where there are none, another writer's set may pass; then what was in force is kept for longer.
  Thread* here = &thread();
  __asm__("" : "+r"(here));  // in a register: instructions are shorter by the variable's offset
  Thread& self = *here;
  const auto owner = reinterpret_cast<std::uint64_t>(owner_of(to, self));
  const auto cells = reinterpret_cast<std::uint64_t>(self.cells);
  if (__builtin_expect(self.slot[0] + owner == cells, 1)) return put_set_in_force(self, to);
  if (to == 0) return put_nothing_in_force();
#else
  if (to == 0) return put_nothing_in_force();
  Thread* self = thread_of_own(to);
  if (__builtin_expect(self != nullptr && words_in_force(*self)[0] == 0, 1))
    return put_set_in_force(*self, to);
#endif
  return replace_slowly(set);
}

CUSTOM_LABELS_EXPORT int custom_labels_publish_thread_context(int on) {
#if VITRINE_PUBLISH_OTEL
  want_records(on != 0);
  return 0;
#else
  return on != 0 ? ENOTSUP : 0;
#endif
}

CUSTOM_LABELS_EXPORT std::size_t custom_labels_count(Set* set) {
  settle_if_need_be(thread_once());
  const PinnedEntries entries(words_of(set));
  std::size_t count = 0;
  for (std::size_t i = 0; i < entries.get().size; ++i)
    count += entries.get().data[i].key.data != nullptr;
  return count;
}

CUSTOM_LABELS_EXPORT int custom_labels_debug_string(const Set* set, String* out) {
  if (out == nullptr) return EINVAL;
  settle_if_need_be(thread_once());
  const PinnedEntries entries(words_of(set));
  const auto* labels = reinterpret_cast<const Label*>(entries.get().data);
  const std::size_t count = entries.get().size;
  std::size_t bytes = 3;
  for (std::size_t i = 0; i < count; ++i) {
    if (labels[i].key.buf != nullptr) bytes += labels[i].key.len + labels[i].value.len + 4;
  }
  auto* text = static_cast<char*>(std::malloc(bytes));
  if (text == nullptr) return ENOMEM;
  char* at = text;
  const auto put = [&](const void* from, std::size_t size) {
    if (size != 0) std::memcpy(at, from, size);
    at += size;
  };
  put("{", 1);
  bool first = true;
  for (std::size_t i = 0; i < count; ++i) {
    if (labels[i].key.buf == nullptr) continue;
    if (!first) put(", ", 2);
    first = false;
    put(labels[i].key.buf, labels[i].key.len);
    put(": ", 2);
    put(labels[i].value.buf, labels[i].value.len);
  }
  put("}", 2);  // with its NUL
  *out = {static_cast<std::size_t>(at - text) - 1, reinterpret_cast<unsigned char*>(text)};
  return 0;
}

CUSTOM_LABELS_EXPORT int custom_labels_careful_set(Set* set, String key, String value,
                                                   String* old_value_out) {
  return custom_labels_set(set, key, value, old_value_out);
}

CUSTOM_LABELS_EXPORT void custom_labels_careful_delete(Set* set, String key) {
  custom_labels_delete(set, key);
}

}  // extern "C"
}  // namespace vitrine::publish
