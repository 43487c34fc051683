// OTEP-4947 thread records and the custom-labels v2 drafts (abi/thread_context.hpp).
#pragma once

#include "format/decode.hpp"

namespace vitrine::format {

/// Decodes the record at `record`, which is not null. `format` is a draft or otel_thread_ctx_v1.
Result<Decoded> decode_thread_context(Format format, Memory& memory, Address record,
                                      const DecodeContext& context);

}  // namespace vitrine::format
