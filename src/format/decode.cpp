#include "format/decode.hpp"

#include <fmt/format.h>

#include "format/custom_labels.hpp"
#include "format/elastic.hpp"
#include "format/thread_context.hpp"

namespace vitrine::format {

Result<Address> record_of(Format format, Memory& memory, Address slot) {
  if (!slot_is_pointer(format)) return slot;
  return memory.read_value<std::uint64_t>(slot, "thread-local slot");
}

Result<Decoded> decode(Format format, Memory& memory, Address slot, const DecodeContext& context) {
  const Address record = TRY(record_of(format, memory, slot));
  return decode_record(format, memory, record, context);
}

Result<Decoded> decode_record(Format format, Memory& memory, Address record,
                              const DecodeContext& context) {
  if (record == 0) return Decoded{};
  const Address at = record & context.address_mask;
  if (at < limits::lowest_address)
    return fail(ErrorCode::malformed,
                fmt::format("thread-local slot: {} is not an address", hex(record)));
  switch (format) {
    case Format::custom_labels_v0:
    case Format::custom_labels_v1:
      return decode_custom_labels(memory, at, context);
    case Format::v2_draft_a:
    case Format::v2_draft_b:
    case Format::v2_draft_c:
    case Format::v2_draft_d:
    case Format::otel_thread_ctx_v1:
      return decode_thread_context(format, memory, at, context);
    case Format::elastic_v1:
      return decode_elastic(memory, at, context);
  }
  return fail(ErrorCode::unsupported, "no such format");
}

}  // namespace vitrine::format
