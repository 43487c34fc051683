// The C interface, except for what calls back (c_run_with.cpp).
#include <customlabels.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "publish/handle_record.hpp"
#include "publish/pinned_entries.hpp"
#include "publish/thread.hpp"

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

/// custom_labels_set where anything is to be looked at more closely.
__attribute__((cold)) int set_checked(Set* set, String key, String value,
                                      String* old_value_out) noexcept {
  Handle* handle = handle_of(set);
  if (handle == nullptr) return why_not_editable(set);
  if (const int error = check_key(key)) return error;
  if (const int error = check_value(value)) return error;
  settle_if_need_be(thread_once());
  return set_label(*handle, key, value, old_value_out);
}

/// Longer ones are compared by a call.
constexpr std::size_t short_string = 64;

/// Gives a label that is there another value: the usual case, with a short key and a short value of
/// about the same length as the old one. False: it did nothing. It calls no function, so that it has
/// few registers to save.
inline bool replace_value(Handle& handle, Cells& cells, String key, String value) noexcept {
  const std::uint64_t storage = handle.storage();
  if (__builtin_expect(storage == 0, 0)) return false;
  Version& from = *Version::of(storage);
  if (__builtin_expect(from.owner != &cells || from.used > copied_by_units, 0)) return false;
  const Label* old = from.labels();
  const Label* const end = old + from.count;
  while (old != end && !same_key(old->key, key)) ++old;
  // In as many units as before: there is room, and not too much of it.
  if (__builtin_expect(old == end || room_for(value.len) != room_for(old->value.len), 0))
    return false;
  Cells::Queue& queue = queue_of(cells, from);
  if (__builtin_expect(queue.last - queue.first <= delay_of(0), 0)) return false;
  if (__builtin_expect(queue.first == queue.fenced, 0)) fence_queue(queue);
  auto* to = static_cast<Version*>(queue.cells[queue.first % Cells::Queue::capacity]);
  if (__builtin_expect(to->is_held(), 0)) return false;
  const std::uint64_t moved = to->storage() - storage;
  if (__builtin_expect(to->layout == from.layout && from.layout != 0, 1)) {
    copy_values(from, moved);
  } else {
    copy_labels(from, *to, from.count, moved);
    copy_units(strings_of(*to, from.count), strings_of(from, from.count), from.used);
    to->layout = from.layout;
    to->count = from.count;
    to->used = from.used;
  }
  reinterpret_cast<Label*>(reinterpret_cast<std::uint64_t>(old) + moved)->value.len = value.len;
  put_bytes(writable(old->value) + moved, reinterpret_cast<const char*>(value.buf), value.len);
  to->live = from.live + static_cast<std::uint32_t>(value.len - old->value.len);
  labels::detail::store_fence();
  sanitizer_release(&handle.now.first);
  const bool done = local_compare_exchange(handle.now.first, storage, to->storage());
  // There is room: one was taken. In a queue, what was not put in use is like what no longer is.
  queue.cells[queue.last % Cells::Queue::capacity] = done ? &from : to;
  ++queue.first;
  ++queue.last;
  return done;
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
}  // namespace vitrine::publish

using namespace vitrine::publish;  // NOLINT: the definitions below are outside any namespace
using LabelSet = custom_labels_labelset_t;

extern "C" {

LabelSet* custom_labels_current() {
  // Not by the variable's name: an executable exports it (see VITRINE_PUBLISH_STATIC).
  return *static_cast<LabelSet* const*>(vitrine::labels::slot_address());
}

const custom_labels_label_t* custom_labels_get(LabelSet* set, String key) {
  const Thread* self = thread_of_own(reinterpret_cast<std::uint64_t>(set));
  if (__builtin_expect(self != nullptr && key.buf != nullptr && key.len < short_string, 1)) {
    const Version* version =
        shown_version(*reinterpret_cast<Handle*>(set), *static_cast<const Arena*>(self->arena));
    if (__builtin_expect(version != nullptr, 1)) return label_of(*version, key);
  }
  return get_first(set, key);
}

int custom_labels_set(LabelSet* set, String key, String value, String* old_value_out) {
  Thread* self = thread_of_own(reinterpret_cast<std::uint64_t>(set));
  if (__builtin_expect(self != nullptr && !is_unsettled(*self) && key.buf != nullptr &&
                           value.buf != nullptr && key.len < short_string &&
                           value.len < short_string && old_value_out == nullptr,
                       1)) {
    auto& cells = *static_cast<Cells*>(self->cells);
    if (__builtin_expect(cells.level == 0, 1)) {
      // As Work does; it is known to be alone.
      __atomic_store_n(&cells.level, 1, __ATOMIC_RELAXED);
      local_fence();
      const bool done = replace_value(*reinterpret_cast<Handle*>(set), cells, key, value);
      local_fence();
      __atomic_store_n(&cells.level, 0, __ATOMIC_RELAXED);
      if (__builtin_expect(done, 1)) return 0;
    }
  }
  return set_checked(set, key, value, old_value_out);
}

void custom_labels_delete(LabelSet* set, String key) {
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

LabelSet* custom_labels_new(std::size_t capacity) {
  return custom_labels_clone_with_capacity(nullptr, capacity);
}

LabelSet* custom_labels_clone(const LabelSet* set) {
  return custom_labels_clone_with_capacity(set, 0);
}

LabelSet* custom_labels_clone_with_capacity(const LabelSet* set, std::size_t capacity) {
  if (capacity > vitrine::labels::max_labels) {
    errno = ENOMEM;
    return nullptr;
  }
  settle_if_need_be(thread_once());
  if (const Handle* handle = handle_of(set))
    return reinterpret_cast<LabelSet*>(copy_handle(*handle, capacity));
  const PinnedEntries entries(words_of(set));
  return reinterpret_cast<LabelSet*>(make_handle(entries.get(), capacity));
}

void custom_labels_free(LabelSet* set) {
  Handle* handle = handle_of(set);
  if (handle == nullptr) return;
  Thread& self = thread_once();
  settle_if_need_be(self);
  if (words_in_force(self)[1] == reinterpret_cast<std::uint64_t>(set))
    custom_labels_replace(nullptr);
  free_handle(*handle);
}

LabelSet* custom_labels_replace(LabelSet* set) {
  const auto to = reinterpret_cast<std::uint64_t>(set);
  // Nothing or handles, and no record: one word changes. Each way is straight.
  if (__builtin_expect(to != 0, 1)) {
    Thread* self = thread_of_own(to);
    if (__builtin_expect(self != nullptr && words_in_force(*self)[0] == 0, 1))
      return put_set_in_force(*self, to);
  } else {
    Thread& self = thread_once();
    if (__builtin_expect(words_in_force(self)[0] == 0 && self.cells != nullptr, 1))
      return put_set_in_force(self, 0);
  }
  return replace_slowly(set);
}

int custom_labels_publish_thread_context(int on) {
#if VITRINE_PUBLISH_OTEL
  want_records(on != 0);
  return 0;
#else
  return on != 0 ? ENOTSUP : 0;
#endif
}

std::size_t custom_labels_count(LabelSet* set) {
  settle_if_need_be(thread_once());
  const PinnedEntries entries(words_of(set));
  std::size_t count = 0;
  for (std::size_t i = 0; i < entries.get().size; ++i)
    count += entries.get().data[i].key.data != nullptr;
  return count;
}

int custom_labels_debug_string(const LabelSet* set, String* out) {
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

int custom_labels_careful_set(LabelSet* set, String key, String value, String* old_value_out) {
  return custom_labels_set(set, key, value, old_value_out);
}

void custom_labels_careful_delete(LabelSet* set, String key) {
  custom_labels_delete(set, key);
}

}  // extern "C"
