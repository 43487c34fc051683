#include "bpf/stack_sample.hpp"

#include "base/limits.hpp"
#include "bpf/record_reader.hpp"

namespace vitrine::bpf {

static_assert(VITRINE_STACK_COPY == limits::stack_copy);

Result<void> parse_stack_sample(std::span<const std::byte> record, StackSample& sample) {
  RecordReader reader(record);
  if (!reader.take(sample.head)) return RecordReader::ends_early();
  if (sample.head.moment.sets > VITRINE_DEFINITIONS)
    return fail(ErrorCode::malformed, "a sample has more label sets than the limits allow");
  sample.sets.resize(sample.head.moment.sets);
  TRY(reader.take_sets(sample.sets));
  if (!reader.take_words(sample.head.kernel_bytes, sample.kernel_stack) ||
      !reader.take_words(sample.head.register_bytes, sample.registers) ||
      !reader.take_bytes(sample.head.stack_bytes, sample.stack))
    return RecordReader::ends_early();
  sample.stack_start = sample.head.stack_start;
  return {};
}

}  // namespace vitrine::bpf
