// The process context: its header with the payload wherever it points, and payloads of both
// versions on their own.
#include "base/limits.hpp"
#include "format/process_context.hpp"
#include "format/thread_schema.hpp"
#include "input.hpp"

using namespace vitrine;

namespace {

void payload(std::uint32_t version, std::span<const std::byte> bytes) {
  const auto context = format::decode_payload(version, bytes);
  if (!context) return;
  fuzz::require(context->resource.size() <= limits::context_attributes);
  fuzz::require(context->attributes.size() <= limits::context_attributes);
  const auto schema = format::schema_of(*context);
  fuzz::require(!schema || schema->keys.names.size() <= limits::key_map_entries);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = fuzz::bytes(data, size);
  payload(1, input);
  payload(2, input);

  fuzz::RegionMemory memory(fuzz::base, input);
  const auto attempt = format::attempt_context(memory, fuzz::base, 0);
  if (!attempt || attempt->outcome != format::ContextAttempt::Outcome::complete) return 0;
  fuzz::require(attempt->payload.size() == attempt->header.payload_size);
  payload(attempt->header.version, attempt->payload);
  return 0;
}
