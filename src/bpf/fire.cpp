#include "bpf/fire.hpp"

#include "bpf/record_reader.hpp"

namespace vitrine::bpf {

Result<void> parse_fire(std::span<const std::byte> record, Fire& fire) {
  RecordReader reader(record);
  if (!reader.take(fire.head)) return RecordReader::ends_early();
  if (fire.head.captures > VITRINE_CAPTURES || fire.head.moment.sets > VITRINE_DEFINITIONS)
    return fail(ErrorCode::malformed,
                "a record of the trace has more entries than the limits allow");

  fire.captures.resize(fire.head.captures);
  for (Captured& captured : fire.captures)
    if (!reader.take(captured.head) || !reader.take_bytes(captured.head.bytes, captured.bytes))
      return RecordReader::ends_early();

  fire.sets.resize(fire.head.moment.sets);
  TRY(reader.take_sets(fire.sets));
  if (!reader.take_words(fire.head.stack_bytes, fire.stack)) return RecordReader::ends_early();
  return {};
}

}  // namespace vitrine::bpf
