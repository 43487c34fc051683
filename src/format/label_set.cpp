#include "format/label_set.hpp"

#include <fmt/format.h>

namespace vitrine::format {

std::string_view name(Format format) {
  switch (format) {
    case Format::custom_labels_v0:
      return "custom-labels-v0";
    case Format::custom_labels_v1:
      return "custom-labels-v1";
    case Format::v2_draft_a:
      return "custom-labels-v2-draft-a";
    case Format::v2_draft_b:
      return "custom-labels-v2-draft-b";
    case Format::v2_draft_c:
      return "custom-labels-v2-draft-c";
    case Format::v2_draft_d:
      return "custom-labels-v2-draft-d";
    case Format::otel_thread_ctx_v1:
      return "otel-thread-ctx-v1";
    case Format::elastic_v1:
      return "elastic-v1";
  }
  return "unknown";
}

std::vector<std::string> texts(const std::vector<Defect>& defects, std::size_t left_out) {
  std::vector<std::string> all;
  for (const Defect& defect : defects) all.push_back(defect.text);
  if (left_out != 0) all.push_back(fmt::format("and {} more defects", left_out));
  return all;
}

namespace layout = abi::custom_labels;

std::optional<SerialMark> serial_of(const layout::SerialSet& bytes, Address set) {
  const layout::SerialTrailer& trailer = bytes.trailer;
  if (trailer.magic != layout::serial_magic || trailer.self != set || trailer.serial == 0)
    return std::nullopt;
  return SerialMark{set, trailer.serial, trailer.total_bytes};
}

bool is_unchanged(const SerialMark& mark, const layout::SerialSet& again) {
  return serial_of(again, mark.set) == mark;
}

std::optional<SerialMark> read_serial(Memory& memory, Address set) {
  auto bytes = memory.read_value<layout::SerialSet>(set, "label set");
  if (!bytes) return std::nullopt;
  return serial_of(*bytes, set);
}

}  // namespace vitrine::format
