// What a thread has on display, whichever format it used: values, independent of any process.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vitrine::format {

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
  std::size_t defects_left_out = 0;   ///< more of those, which are not told
  /// Entries that count for nothing, because of another one with their key: not against any rule.
  std::size_t repeated = 0;
  std::size_t record_bytes = 0;  ///< of a thread record, header included; 0: it is not in force

  bool operator==(const LabelSet&) const = default;
};

}  // namespace vitrine::format
