// ThreadSchema: what a process context declares about the thread records of its process.
// Source: docs/formats/thread-context.md, "Schema in the process context".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "format/decode.hpp"
#include "format/label_set.hpp"
#include "format/process_context.hpp"

namespace vitrine::format {

struct ThreadSchema {
  /// The layout it announces: a v2 draft (B, C or D) for the records of
  /// custom_labels_current_set_v2 or otel_thread_ctx_v1. nullopt: a version that vitrine does not
  /// read, such as "go_pprof_labels_v1" or one of Node.js.
  std::optional<Format> format;
  std::string version;  ///< threadlocal.schema_version; of draft B the integer in decimal
  KeyMap keys;          ///< threadlocal.attribute_key_map
  std::optional<std::uint64_t> max_record_size;

  bool operator==(const ThreadSchema&) const = default;
};

/// nullopt when the context declares no thread records. Looks among the context's attributes
/// and, since drafts B and C put them there, in the resource.
std::optional<ThreadSchema> schema_of(const ProcessContext& context);

/// The layout of the records behind custom_labels_current_set_v2, a name that two layouts have
/// used. `schema` is the process's, if it has one; `has_reference`: the process defines
/// custom_labels_current_ref_v2 (draft A). nullopt: nothing names them, so the record is not read.
std::optional<Format> draft_behind_v2_symbol(const std::optional<ThreadSchema>& schema,
                                             bool has_reference);

}  // namespace vitrine::format
