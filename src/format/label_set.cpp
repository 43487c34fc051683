#include "format/label_set.hpp"

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

}  // namespace vitrine::format
