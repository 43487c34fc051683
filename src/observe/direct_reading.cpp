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
  const auto slot = slot_address(subject, definition, thread_pointer);
  if (!slot) return tl::unexpected<Error>(slot.error());
  if (!*slot) return format::LabelSet{};
  WindowMemory memory(subject.process().memory(), most_windows);
  const auto decode = [&] {
    return format::decode(definition.format, memory, **slot,
                          subject.decode_context(definition, bytes_left));
  };
  auto decoded = decode();
  if (decoded && decoded->needs_key_map_refresh) {
    subject.refresh_keys(definition, thread_pointer);
    decoded = decode();
  }
  if (!decoded) return tl::unexpected<Error>(std::move(decoded.error()));
  return std::move(decoded->set);
}

}  // namespace vitrine::observe
