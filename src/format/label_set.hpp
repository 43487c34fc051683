// Label sets as values, and the serial check of sets of vitrine's writer.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "abi/custom_labels.hpp"
#include "base/memory.hpp"
#include "base/text.hpp"

namespace vitrine::format {

// What a thread publishes, whichever format it used: values, independent of any process.

/// The published layouts (docs/formats/README.md).
enum class Format : std::uint8_t {
  custom_labels_v0,
  custom_labels_v1,
  v2_draft_a,
  v2_draft_b,
  v2_draft_c,
  v2_draft_d,
  otel_thread_ctx_v1,
  elastic_v1,
};

/// "custom-labels-v1", "otel-thread-ctx-v1", …: the names users see.
std::string_view name(Format format);

/// Any bytes: NULs and invalid UTF-8 are legal in v0 and v1.
struct Label {
  std::string key;
  std::string value;

  bool operator==(const Label&) const = default;
};

struct TraceContext {
  std::array<std::uint8_t, 16> trace_id{};
  std::array<std::uint8_t, 8> span_id{};
  std::optional<std::uint8_t> trace_flags;  ///< drafts have none
  /// The first span of this trace in the process: drafts A, B (root span), Elastic (transaction).
  std::optional<std::array<std::uint8_t, 8>> root_span_id;

  /// Neither id is one.
  [[nodiscard]] bool is_empty() const { return !is_id(trace_id) && !is_id(span_id); }
  /// Both are: nothing else may be a link, an exemplar or a parent.
  [[nodiscard]] bool is_valid() const { return is_id(trace_id) && is_id(span_id); }
  bool operator==(const TraceContext&) const = default;
};

/// What a limit cut, or a broken publisher spoiled, in an otherwise good result.
struct Truncation {
  std::string what;    ///< "labels", "key", "value", "attributes", "bytes"
  std::string detail;  ///< "kept 256 of 1,000"

  bool operator==(const Truncation&) const = default;
};

/// The rules that a publisher can break in what a thread displays.
enum class SetRule : std::uint8_t {
  value_present,     ///< v0, v1: a label's value is never null
  key_readable,      ///< v0, v1: where a label's key points, there are bytes
  valid_is_boolean,  ///< records: `valid` is 0 or 1
  minor_version,     ///< Elastic: it is 1
  record_aligned,    ///< records: at an even address
  attributes_fit,    ///< records: the last attribute ends where they end
  key_in_map,        ///< records: every attribute's index has a name
  keys_unique,       ///< records: no two attributes are called the same
};

struct Defect {
  SetRule rule{};
  std::string text;  ///< what was found, as a sentence without a full stop

  bool operator==(const Defect&) const = default;
};

/// The texts of `defects`, for people; of `left_out` more, that there are.
std::vector<std::string> texts(const std::vector<Defect>& defects, std::size_t left_out);

/// One thread's labels in one format, duplicates already resolved by that format's rule.
struct LabelSet {
  std::vector<Label> labels;
  std::optional<TraceContext> trace;  ///< absent, too, when the ids are all zero
  std::vector<Truncation> truncated;  ///< empty: complete
  std::vector<Defect> defects;        ///< rules of the format that the publisher broke
  std::size_t defects_left_out = 0;   ///< more of those, which are not reported
  /// Entries that count for nothing, because of another one with their key: not against any rule.
  std::size_t repeated = 0;
  std::size_t record_bytes = 0;  ///< of a thread record, header included; 0: it is not in force

  bool operator==(const LabelSet&) const = default;
};

// The serial check: proof, without stopping the thread, that a set of vitrine's writer was read whole
// (docs/formats/custom-labels.md, "Serial trailer").
//
// The reader's order, each step its own element of a batched read or its own call:
//   slot; the set's 56 bytes (serial_of: foreign, or a mark); the labels; slot; the 56 bytes again.
// The labels belong together, and were in force at the second slot read, when both slots are equal
// and is_unchanged() holds. Bytes inside one element have no order, so the first 56 bytes must be
// an element of their own before the window that holds the labels.

/// Which incarnation of which block was seen.
struct SerialMark {
  Address set = 0;
  std::uint64_t serial = 0;
  std::uint32_t total_bytes = 0;  ///< of the block, from the set's first byte; as published

  bool operator==(const SerialMark&) const = default;
};

/// The mark in a set read at `set` (tag bits removed). nullopt: a foreign writer's set, or a block
/// that is being rewritten; only another kind of evidence helps.
std::optional<SerialMark> serial_of(const abi::custom_labels::SerialSet& bytes, Address set);

/// Whether the second reading of the same set shows the same incarnation.
bool is_unchanged(const SerialMark& mark, const abi::custom_labels::SerialSet& again);

/// Reads the 56 bytes and looks for the mark. Give the process itself, not a cache. nullopt, too,
/// when they are not readable: a foreign set of 24 bytes may lie at the end of a mapping.
std::optional<SerialMark> read_serial(Memory& memory, Address set);

}  // namespace vitrine::format
