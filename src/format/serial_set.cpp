#include "format/serial_set.hpp"

namespace vitrine::format {

namespace layout = abi::custom_labels;

std::optional<SerialMark> serial_of(const layout::SerialSet& bytes, Address set) {
  const layout::SerialTrailer& trailer = bytes.trailer;
  if (trailer.magic != layout::serial_magic || trailer.self != set || trailer.serial == 0)
    return std::nullopt;
  return SerialMark{set, trailer.serial, trailer.total_bytes};
}

bool still_stands(const SerialMark& mark, const layout::SerialSet& again) {
  return serial_of(again, mark.set) == mark;
}

std::optional<SerialMark> read_serial(Memory& memory, Address set) {
  auto bytes = memory.read_value<layout::SerialSet>(set, "label set");
  if (!bytes) return std::nullopt;
  return serial_of(*bytes, set);
}

}  // namespace vitrine::format
