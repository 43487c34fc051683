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

}  // namespace vitrine::format
