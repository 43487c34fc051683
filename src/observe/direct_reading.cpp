#include "observe/direct_reading.hpp"

#include "base/window_memory.hpp"

namespace vitrine::observe {
namespace {

constexpr std::size_t most_windows = 1024;

}  // namespace

Result<std::optional<Address>> slot_address(Subject& subject, const Definition& definition,
                                            Address thread_pointer) {
  if (thread_pointer == 0)
    return fail(ErrorCode::unsupported, "its thread pointer is unknown",
                "run vitrine with CAP_BPF and CAP_PERFMON, or in ptrace mode");
  return target::evaluate(definition.location, subject.process().machine(), thread_pointer,
                          subject.process().memory());
}

Result<format::LabelSet> read_directly(Subject& subject, const Definition& definition,
                                       Address thread_pointer, std::size_t* bytes_left) {
  const auto slot = TRY(slot_address(subject, definition, thread_pointer));
  if (!slot) return format::LabelSet{};
  WindowMemory memory(subject.process().memory(), most_windows);
  const Address record = TRY(format::record_of(definition.format, memory, *slot));
  return subject.decode(definition, memory, record, thread_pointer, bytes_left);
}

}  // namespace vitrine::observe
