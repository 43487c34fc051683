#include "observe/serial_reading.hpp"

#include <array>
#include <vector>

#include "base/chunk_memory.hpp"
#include "format/serial_set.hpp"

namespace vitrine::observe {
namespace {

using abi::custom_labels::SerialSet;

template <class T>
std::span<std::byte> raw_bytes(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace

std::optional<format::LabelSet> read_by_serial(Memory& memory, Address slot,
                                               const format::DecodeContext& context) {
  auto before = memory.read_value<Address>(slot, "thread-local slot");
  if (!before) return std::nullopt;
  const Address set = *before & context.address_mask;
  if (set < limits::lowest_address) return std::nullopt;
  const auto mark = format::read_serial(memory, set);
  if (!mark || mark->total_bytes < sizeof(SerialSet) ||
      mark->total_bytes > limits::hard_label_limits.bytes_per_thread)
    return std::nullopt;

  std::vector<std::byte> block(mark->total_bytes);
  Address after = 0;
  SerialSet head{};
  std::array<ReadRequest, 3> in_order{
      {{set, block, 0}, {slot, raw_bytes(after), 0}, {set, raw_bytes(head), 0}}};
  memory.read(in_order);
  for (const ReadRequest& request : in_order)
    if (!request.complete()) return std::nullopt;
  if (after != *before || !format::still_stands(*mark, head)) return std::nullopt;

  ChunkMemory copy({{set, block}});
  auto decoded = format::decode_record(format::Format::custom_labels_v1, copy, set, context);
  if (!decoded || !copy.missed().empty()) return std::nullopt;
  return std::move(decoded->set);
}

}  // namespace vitrine::observe
