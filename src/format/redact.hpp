// What threads and processes publish, with some values hidden.
#pragma once

#include "base/redaction.hpp"
#include "format/label_set.hpp"
#include "format/process_context.hpp"

namespace vitrine::format {

/// With the values of what `redaction` covers replaced. Ids of a trace are covered by the keys
/// trace_id and span_id (a root span's by either of span_id and root_span_id); when one is, the ids
/// are labels: the replacement of one is no id.
LabelSet redacted(LabelSet set, const Redaction& redaction);

/// Attributes at any depth, by their own key. Of a list or an array that is covered, all of it is
/// one value.
ProcessContext redacted(ProcessContext context, const Redaction& redaction);

}  // namespace vitrine::format
