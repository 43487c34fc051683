// The Elastic APM profiling-correlation record (abi/elastic.hpp).
#pragma once

#include "format/decode.hpp"

namespace vitrine::format {

/// Decodes the record at `record`, which is not null. It carries a trace context and no labels.
Result<Decoded> decode_elastic(Memory& memory, Address record, const DecodeContext& context);

}  // namespace vitrine::format
