// What a thread has on display, whichever format it used: values, independent of any process.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vitrine::format {

/// The published layouts (labels.md 1.1).
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

/// One thread's labels in one format, duplicates already resolved by that format's rule.
struct LabelSet {
  std::vector<Label> labels;
  std::optional<TraceContext> trace;  ///< absent, too, when the ids are all zero
  std::vector<Truncation> truncated;  ///< empty: complete
  std::vector<std::string> defects;   ///< rules of the format that the publisher broke

  bool operator==(const LabelSet&) const = default;
};

}  // namespace vitrine::format
