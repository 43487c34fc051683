#include "observe/labels/kernel_labels.hpp"

#include <algorithm>
#include <array>

#include "format/label_set.hpp"

namespace vitrine::observe {
namespace {

using abi::custom_labels::SerialSet;
using format::Format;

vitrine_shape shape_of(Format format) {
  switch (format) {
    case Format::custom_labels_v0:
      return VITRINE_LABEL_ARRAY_IN_SLOT;
    case Format::custom_labels_v1:
      return VITRINE_LABEL_ARRAY;
    case Format::v2_draft_a:
    case Format::v2_draft_b:
      return VITRINE_COUNTED_RECORD;
    case Format::v2_draft_c:
    case Format::v2_draft_d:
    case Format::otel_thread_ctx_v1:
      return VITRINE_SIZED_RECORD;
    case Format::elastic_v1:
      return VITRINE_FIXED_RECORD;
  }
  return VITRINE_FIXED_RECORD;
}

vitrine_definition wire_definition(const Definition& definition) {
  vitrine_definition wire{};
  wire.shape = shape_of(definition.format);
  if (const auto* fixed = std::get_if<target::StaticTls>(&definition.location)) {
    wire.tls_kind = VITRINE_TLS_STATIC;
    wire.tls_offset = fixed->offset;
    return wire;
  }
  const auto& tls = std::get<target::DynamicTls>(definition.location);
  wire.tls_kind = tls.libc == target::Libc::musl ? VITRINE_TLS_MUSL_DTV : VITRINE_TLS_GLIBC_DTV;
  wire.tls_offset = static_cast<std::int64_t>(tls.offset);
  wire.tls_module_id = tls.module_id;
  wire.tls_need_generation = tls.need_generation;
  return wire;
}

/// Whether a decoder got all it needed. Of a draft A or B record it asks for the most that its
/// attributes can be, and records in the set whether it fell short.
bool sufficed(const ChunkMemory& bytes, Format format, const Result<format::LabelSet>& set) {
  if (bytes.missed().empty()) return true;
  if (format != Format::v2_draft_a && format != Format::v2_draft_b) return false;
  return set && set->truncated.empty();
}

/// Makes the page of an address resident, if there is one.
void touch(Memory& memory, Address address) {
  std::array<std::byte, 1> one{};
  memory.read_some(address, one);
}

/// The whole block of a set of vitrine's writer, if it still is the incarnation that was sampled.
std::vector<std::byte> rest_of_block(Memory& process, Memory& sampled, Address set) {
  const auto mark = format::read_serial(sampled, set);
  if (!mark || mark->total_bytes > limits::hard_label_limits.bytes_per_thread) return {};
  std::vector<std::byte> block(mark->total_bytes);
  SerialSet head{};
  std::array<ReadRequest, 2> in_order{
      {{set, block, 0}, {set, std::as_writable_bytes(std::span(&head, 1)), 0}}};
  process.read(in_order);
  if (!in_order[0].complete() || !in_order[1].complete()) return {};
  if (!format::is_unchanged(*mark, head)) return {};
  return block;
}

}  // namespace

static_assert(limits::definitions <= VITRINE_DEFINITIONS);

vitrine_target wire_target(std::span<const Definition> definitions) {
  vitrine_target target{};
#if defined(__aarch64__)
  target.machine = VITRINE_AARCH64;
#else
  target.machine = VITRINE_X86_64;
#endif
  target.address_mask = ~0ULL;
  for (const Definition& definition :
       definitions.first(std::min<std::size_t>(definitions.size(), VITRINE_DEFINITIONS)))
    target.definitions[target.definition_count++] = wire_definition(definition);
  return target;
}

vitrine_target wire_target(Subject& subject, std::uint32_t pid_level) {
  vitrine_target target = wire_target(subject.definitions());
  target.pid_level = pid_level;
  target.address_mask = subject.process().memory().untag(~Address{0});
  return target;
}

bool met_absent_page(const KernelSlot& slot) {
  return std::ranges::any_of(slot.chunks, [](const auto& chunk) { return chunk.bytes.empty(); });
}

KernelReading decode_kernel_slot(Subject& subject, const Definition& definition,
                                 const KernelSlot& slot, std::size_t* bytes_left, Lacking lacking) {
  target::ProcessMemory& process = subject.process().memory();
  if (slot.state == VITRINE_SLOT_UNALLOCATED) return {format::LabelSet{}, true};
  if (slot.state != VITRINE_SLOT_READ) {
    touch(process, slot.address);
    return {fail(ErrorCode::failed, "its thread-local slot was not resident"), false};
  }

  const Address record =
      format::slot_is_pointer(definition.format) ? process.untag(slot.value) : slot.address;
  ChunkMemory sampled(slot.chunks);
  const auto decode_from = [&](Memory& memory, bool is_copy = false) {
    return subject.decode(definition, memory, record, slot.thread_pointer, bytes_left, nullptr,
                          is_copy);
  };
  auto decoded = decode_from(sampled, true);
  if (sufficed(sampled, definition.format, decoded)) return {std::move(decoded), true};

  for (const Address address : sampled.missed()) touch(process, address);
  const auto block = rest_of_block(process, sampled, record);
  if (!block.empty()) {
    ChunkMemory whole({{record, block}});
    auto again = decode_from(whole);
    if (whole.missed().empty()) return {std::move(again), true};
  }
  if (lacking == Lacking::left_out && decoded) return {std::move(decoded), false};
  auto now = decode_from(process);
  // For the reason alone, if there is one that lasts.
  if (lacking == Lacking::left_out && now) return {format::LabelSet{}, false};
  return {std::move(now), false};
}

}  // namespace vitrine::observe
