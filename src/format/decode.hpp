// Decoding what a thread's slot holds, whichever format its publisher uses.
#pragma once

#include "base/limits.hpp"
#include "base/memory.hpp"
#include "format/key_map.hpp"
#include "format/label_set.hpp"

namespace vitrine::format {

/// What a decoder needs to know besides the bytes.
struct DecodeContext {
  limits::LabelLimits limits;    ///< values above limits::hard_label_limits count as those
  const KeyMap* keys = nullptr;  ///< attribute names, for the formats that publish indexes
  /// Kept bits of every pointer read from the target: pointer tags (x86-64 LAM, aarch64 TBI and
  /// MTE) are not part of an address.
  Address address_mask = ~Address{0};
  /// What the snapshot may still take, shared by all its threads; null: no bound.
  std::size_t* bytes_left = nullptr;
};

struct Decoded {
  LabelSet set;
  /// An attribute's index lies outside the key map. The map only grows: read it again, once, and
  /// decode again; if the index is still unknown the attribute stays out (a defect says so).
  bool needs_key_map_refresh = false;
};

/// True when the slot holds a pointer to the record; false when it is the record (v0).
constexpr bool slot_is_pointer(Format format) {
  return format != Format::custom_labels_v0;
}

/// What the slot at `slot` holds: the record of its thread. Errors: those of reading it.
Result<Address> record_of(Format format, Memory& memory, Address slot);

/// Decodes the labels in force in the thread whose slot is at `slot`. A null slot, or a record that
/// is not valid, gives an empty set. Fails as `malformed` when the slot, the record or the label
/// array cannot be read at all; whatever else is wrong is in the set's `defects` and `truncated`.
Result<Decoded> decode(Format format, Memory& memory, Address slot, const DecodeContext& context);

/// The same for callers that have read the slot: `record` is the pointer found in it (any bits), or
/// for v0 the slot's own address.
Result<Decoded> decode_record(Format format, Memory& memory, Address record,
                              const DecodeContext& context);

}  // namespace vitrine::format
