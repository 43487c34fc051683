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

/// custom_labels_set where anything is to be looked at more closely.
__attribute__((noinline)) int set_checked(Set* set, String key, String value,
                                          String* old_value_out) noexcept {
  Handle* handle = handle_of(set);
  if (handle == nullptr) return why_not_editable(set);
  if (const int error = check_key(key)) return error;
  if (const int error = check_value(value)) return error;
  settle_if_need_be(thread_once());
  return set_label_slowly(*handle, key, value, old_value_out);
}

Words words_of(const Set* set) noexcept {
  return Words{0, reinterpret_cast<std::uint64_t>(set)};
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
  if (key.buf == nullptr) return nullptr;
  if (const Handle* handle = handle_of(set)) {
    const Version* version = show_version(*handle, thread_once());
    if (version == nullptr) return nullptr;
    const std::size_t index = find_index(version->labels(), version->count, key);
    return index < version->count ? version->labels() + index : nullptr;
  }
  const PinnedEntries entries(words_of(set));
  return find_label(reinterpret_cast<const Label*>(entries.get().data), entries.get().size, key);
}

int custom_labels_set(LabelSet* set, String key, String value, String* old_value_out) {
  Handle* handle = handle_of(set);
  Thread& self = thread_once();
  if (__builtin_expect(handle == nullptr || key.buf == nullptr || value.buf == nullptr ||
                           (key.len | value.len) >= string_bytes_max || old_value_out != nullptr ||
                           is_unsettled(self),
                       0))
    return set_checked(set, key, value, old_value_out);
  return set_label(*handle, key, value, self);
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
  settle_if_need_be(thread_once());
  if (custom_labels_current() == set) custom_labels_replace(nullptr);
  free_handle(*handle);
}

LabelSet* custom_labels_replace(LabelSet* set) {
  Thread& self = thread_once();
  const auto to = reinterpret_cast<std::uint64_t>(set);
  auto* slot = reinterpret_cast<volatile std::uint64_t*>(&self.slot);
  // Nothing or handles, and no record: one word changes.
  if (__builtin_expect(slot[0] == 0, 1) &&
      (to == 0 ? self.cells != nullptr : __builtin_expect(is_simple(self, to), 1))) {
    const std::uint64_t before = slot[1];
    vitrine::labels::detail::store_fence();
    slot[1] = to;
    local_fence();
    return reinterpret_cast<LabelSet*>(before);
  }
  return reinterpret_cast<LabelSet*>(replace_slowly(self, to));
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
