#include "format/elastic.hpp"

#include <fmt/format.h>

#include "abi/elastic.hpp"
#include "format/set_builder.hpp"

namespace vitrine::format {

Result<Decoded> decode_elastic(Memory& memory, Address at, const DecodeContext& context) {
  auto record = TRY(memory.read_value<abi::elastic::Record>(at, "Elastic record"));
  SetBuilder set(context);
  if (const unsigned minor = record.minor_version; minor != 1)
    set.defect(SetRule::minor_version, fmt::format("minor version is {}, not 1", minor));
  if (record.valid > 1)
    set.defect(SetRule::valid_is_boolean, fmt::format("valid is {}, not 0 or 1", record.valid));
  if (record.valid != 1 || record.trace_present == 0) return set.finish();

  TraceContext trace;
  std::copy(std::begin(record.trace_id), std::end(record.trace_id), trace.trace_id.begin());
  std::copy(std::begin(record.span_id), std::end(record.span_id), trace.span_id.begin());
  std::copy(std::begin(record.transaction_id), std::end(record.transaction_id),
            trace.root_span_id.emplace().begin());
  trace.trace_flags = record.trace_flags;
  set.trace(trace);
  return set.finish();
}

}  // namespace vitrine::format
