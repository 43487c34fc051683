// The decoders of each label format: custom-labels v0 and v1, Elastic, the thread context.
#pragma once

#include "format/decode.hpp"

namespace vitrine::format {

// custom-labels v0 and v1: an array of (key, value) string pairs (abi/custom_labels.hpp).

/// `set` is the slot itself in v0 and the slot's pointer, not null, in v1: both begin with the
/// address and the number of labels.
Result<Decoded> decode_custom_labels(Memory& memory, Address set, const DecodeContext& context);

// The Elastic APM profiling-correlation record (abi/elastic.hpp).

/// Decodes the record at `record`, which is not null. It carries a trace context and no labels.
Result<Decoded> decode_elastic(Memory& memory, Address record, const DecodeContext& context);

// OTEP-4947 thread records and the custom-labels v2 drafts (abi/thread_context.hpp).

/// Decodes the record at `record`, which is not null. `format` is a draft or otel_thread_ctx_v1.
Result<Decoded> decode_thread_context(Format format, Memory& memory, Address record,
                                      const DecodeContext& context);

}  // namespace vitrine::format
