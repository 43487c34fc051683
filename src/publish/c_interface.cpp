// The C interface, except for what calls back (c_run_with.cpp).
#include <customlabels.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "publish/handle.hpp"
#include "publish/thread.hpp"

namespace vitrine::publish {
namespace {

using Set = custom_labels_labelset_t;

Words words_of(Set* set) noexcept {
  const Words plain{0, reinterpret_cast<std::uint64_t>(set)};
  const Block* block = block_of(plain);
  return block != nullptr ? block->links.words : plain;
}

labels::detail::Entries entries_of_set(const Set* set) noexcept {
  return entries_of(Words{0, reinterpret_cast<std::uint64_t>(set)});
}

const Label* labels_of(const Set* set, std::size_t& count) noexcept {
  const labels::detail::Entries entries = entries_of_set(set);
  count = entries.size;
  return reinterpret_cast<const Label*>(entries.data);
}

String copy_for_caller(String from) noexcept {
  auto* copy = static_cast<unsigned char*>(std::malloc(from.len + 1));
  if (copy == nullptr) return {0, nullptr};
  if (from.len != 0) std::memcpy(copy, from.buf, from.len);
  copy[from.len] = 0;
  return {from.len, copy};
}

int why_not_editable(const Set* set) noexcept {
  return set == nullptr ? EINVAL : EROFS;
}

int set_label(Set* set, const Label& label, String* old_value_out) noexcept {
  Handle* handle = handle_of(set);
  if (handle == nullptr) return why_not_editable(set);
  if (const int error = check_key(label.key)) return error;
  if (const int error = check_value(label.value)) return error;
  const Edited edited = edit(*handle, {&label, 1});
  if (edited.error != 0) return edited.error;
  int error = 0;
  if (old_value_out != nullptr) {
    *old_value_out = {0, nullptr};
    const Label* old = find_label(edited.before->labels(), edited.before->slots, label.key);
    if (old != nullptr) {
      *old_value_out = copy_for_caller(old->value);
      if (old_value_out->buf == nullptr) {
        error = ENOMEM;
        const Label undo{label.key, old->value};
        if (!put_back(*handle, edited)) edit(*handle, {&undo, 1}).done();
      }
    }
  }
  edited.done();
  return error;
}

}  // namespace
}  // namespace vitrine::publish

using namespace vitrine::publish;  // NOLINT: the definitions below are outside any namespace
using vitrine::labels::detail::in_force;
using vitrine::labels::detail::put_in_force;
using LabelSet = custom_labels_labelset_t;

extern "C" {

LabelSet* custom_labels_current() {
  // Not by the variable's name: an executable exports it (see VITRINE_PUBLISH_STATIC).
  return *static_cast<LabelSet* const*>(vitrine::labels::slot_address());
}

const custom_labels_label_t* custom_labels_get(LabelSet* set, String key) {
  if (check_key(key) != 0) return nullptr;
  std::size_t count = 0;
  const Label* labels = labels_of(set, count);
  return find_label(labels, count, key);
}

int custom_labels_set(LabelSet* set, String key, String value, String* old_value_out) {
  return set_label(set, {key, value}, old_value_out);
}

void custom_labels_delete(LabelSet* set, String key) {
  int error = 0;
  Handle* handle = handle_of(set);
  if (handle == nullptr) {
    error = why_not_editable(set);
  } else if ((error = check_key(key)) == 0 && custom_labels_get(set, key) != nullptr) {
    const Label label{key, {0, removed}};
    const Edited edited = edit(*handle, {&label, 1});
    error = edited.error;
    edited.done();
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
  return reinterpret_cast<LabelSet*>(make_handle(entries_of_set(set), capacity));
}

void custom_labels_free(LabelSet* set) {
  Handle* handle = handle_of(set);
  if (handle == nullptr) return;
  if (custom_labels_current() == set) custom_labels_replace(nullptr);
  free_handle(*handle);
}

LabelSet* custom_labels_replace(LabelSet* set) {
  Thread& self = thread();
  const Words before = in_force(self);
  // Without an arena nothing would take the set out of force when the thread ends.
  if (set == nullptr || arena_of(self) != nullptr) {
    const Words words = words_of(set);
    hold(words);
    put_in_force(self, words);
    let_go(before);
  }
  return reinterpret_cast<LabelSet*>(before[1]);
}

std::size_t custom_labels_count(LabelSet* set) {
  std::size_t slots = 0, count = 0;
  const Label* labels = labels_of(set, slots);
  for (std::size_t i = 0; i < slots; ++i) count += labels[i].key.buf != nullptr;
  return count;
}

int custom_labels_debug_string(const LabelSet* set, String* out) {
  if (out == nullptr) return EINVAL;
  std::size_t slots = 0, bytes = 3;
  const Label* labels = labels_of(set, slots);
  for (std::size_t i = 0; i < slots; ++i) {
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
  for (std::size_t i = 0; i < slots; ++i) {
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
