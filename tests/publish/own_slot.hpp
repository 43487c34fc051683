// What an observer would find in this thread's slots: read from the published symbols through the
// raw ABI structures, not through the library.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "abi/custom_labels.hpp"
#include "abi/thread_context.hpp"

namespace vitrine::test {

// The published variables, by their assembler names: <customlabels.h> declares one of them opaque.
extern __thread const abi::custom_labels::SetV1* v1_slot __asm__("custom_labels_current_set");
#if VITRINE_TEST_OTEL
extern __thread const abi::thread_context::Record* record_slot __asm__("otel_thread_ctx_v1");
#else
inline const abi::thread_context::Record* const record_slot = nullptr;  // built without
#endif
extern __thread abi::custom_labels::SetV0 v0_slot __asm__("custom_labels_thread_local_data");

using Labels = std::map<std::string, std::string>;

inline std::string bytes_of(const abi::custom_labels::String& string) {
  return {reinterpret_cast<const char*>(string.buf), string.len};
}

/// By the rules of the ABI: null keys are skipped, the first of equal keys counts. A null value is
/// a writer's bug, and comes out as one.
inline Labels labels_at(std::uint64_t storage, std::uint64_t count) {
  Labels labels;
  const auto* label = reinterpret_cast<const abi::custom_labels::Label*>(storage);
  for (std::uint64_t i = 0; i < count; ++i, ++label) {
    if (label->key.buf == 0) continue;
    labels.emplace(bytes_of(label->key),
                   label->value.buf == 0 ? "null value!" : bytes_of(label->value));
  }
  return labels;
}

inline Labels v1_labels() {
  const auto* set = v1_slot;
  return set == nullptr ? Labels{} : labels_at(set->storage, set->count);
}

inline Labels v0_labels() {
  return labels_at(v0_slot.storage, v0_slot.count);
}

struct Attribute {
  std::uint8_t key;
  std::string value;
};

struct OwnRecord {
  std::string trace_id;
  std::string span_id;
  int flags = 0;
  std::vector<Attribute> attributes;
};

inline std::string hex_of(const std::uint8_t* bytes, std::size_t size) {
  static const char digits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < size; ++i) {
    text += digits[bytes[i] >> 4];
    text += digits[bytes[i] & 15];
  }
  return text;
}

inline std::optional<OwnRecord> own_record() {
  const auto* record = record_slot;
  if (record == nullptr || record->valid != 1) return std::nullopt;
  OwnRecord own;
  own.trace_id = hex_of(record->trace_id, 16);
  own.span_id = hex_of(record->span_id, 8);
  own.flags = record->trace_flags;
  const auto* at = reinterpret_cast<const std::uint8_t*>(record + 1);
  const auto* end = at + record->attrs_size;
  while (end - at >= 2 && end - at >= 2 + at[1]) {
    own.attributes.push_back({at[0], {reinterpret_cast<const char*>(at + 2), at[1]}});
    at += 2 + at[1];
  }
  return own;
}

/// The value of a key's attribute, by the index that the key map gave it.
inline std::optional<std::string> attribute(const OwnRecord& record, std::uint8_t index) {
  std::optional<std::string> value;
  for (const Attribute& one : record.attributes) {
    if (one.key == index) value = one.value;  // the last counts
  }
  return value;
}

}  // namespace vitrine::test
