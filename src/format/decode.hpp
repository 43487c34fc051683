// Decoding of what a slot holds, whichever format its publisher uses.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/limits.hpp"
#include "base/memory.hpp"
#include "format/label_set.hpp"

namespace vitrine::format {

// The names behind the one-byte key indexes of thread records.

/// Index to name, at most 256. A publisher may put something other than a string at an index: it
/// keeps its place, without a name.
struct KeyMap {
  std::vector<std::optional<std::string>> names;

  bool operator==(const KeyMap&) const = default;
};

/// Draft A has its key map in memory: `reference` is the pointer found in the thread-local
/// custom_labels_current_ref_v2. Fails as `malformed` or `unsupported` (schema version other than
/// 1); names past the readable bytes are left out.
Result<KeyMap> read_key_table(Memory& memory, Address reference, Address address_mask);

/// What a decoder needs to know besides the bytes.
struct DecodeContext {
  limits::LabelLimits limits;    ///< values above limits::hard_label_limits count as those
  const KeyMap* keys = nullptr;  ///< attribute names, for the formats that publish indexes
  /// Kept bits of every pointer read from the target: pointer tags (x86-64 LAM, aarch64 TBI and
  /// MTE) are not part of an address.
  Address address_mask = ~Address{0};
  /// What the snapshot may still take, shared by all its threads; null: no bound.
  std::size_t* bytes_left = nullptr;
  /// The memory is a copy that may lack what the process has. Labels whose bytes it lacks are left out, with those that
  /// may be an outdated one of the same key.
  bool is_copy = false;
};

struct Decoded {
  LabelSet set;
  /// An attribute's index lies outside the key map. The map only grows: read it again, once, and
  /// decode again; if the index is still unknown the attribute stays out (a defect reports it).
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

// SetBuilder: collects one thread's labels within the limits, and reports what they cut.

class SetBuilder {
 public:
  explicit SetBuilder(const DecodeContext& context);

  /// A pointer as it came from the target, without its tag bits.
  [[nodiscard]] Address pointer(std::uint64_t raw) const { return raw & mask_; }

  [[nodiscard]] const limits::LabelLimits& limits() const { return limits_; }
  [[nodiscard]] std::size_t size() const { return result_.set.labels.size(); }
  [[nodiscard]] bool full() const { return size() >= limits_.labels_per_set; }

  /// Counts `bytes` against the budgets of thread and snapshot. False, and noted, when they do not
  /// fit: then nothing more is taken for this thread.
  bool charge(std::size_t bytes);

  bool contains(const std::string& key);
  /// That many more labels may come, within what is allowed.
  void expect(std::size_t labels) {
    result_.set.labels.reserve(std::min(size() + labels, limits_.labels_per_set));
  }
  void add(Label label) { result_.set.labels.push_back(std::move(label)); }
  Label& label(std::size_t index) { return result_.set.labels[index]; }
  void remove(std::size_t index) {
    result_.set.labels.erase(result_.set.labels.begin() + static_cast<std::ptrdiff_t>(index));
  }

  /// Notes what a limit or unreadable memory cut, or which rule the publisher broke. After a few
  /// of a kind it only counts: a hostile set must not grow the result.
  void cut(const char* what, std::string detail);
  void defect(SetRule rule, std::string text);
  void repeated() { ++result_.set.repeated; }
  void record_bytes(std::size_t bytes) { result_.set.record_bytes = bytes; }

  void trace(const TraceContext& trace);
  void ask_for_key_map() { result_.needs_key_map_refresh = true; }

  Decoded finish();

 private:
  limits::LabelLimits limits_;
  Address mask_;
  std::size_t* snapshot_left_;
  std::size_t thread_left_;
  bool out_of_bytes_ = false;
  std::size_t cuts_left_out_ = 0;
  Decoded result_;
  std::unordered_set<std::string> keys_;  // filled once a linear search would cost more
};

}  // namespace vitrine::format
