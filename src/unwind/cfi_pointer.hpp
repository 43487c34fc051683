// Pointers as .eh_frame writes them (LSB 5.0, 10.5).
#pragma once

#include <optional>

#include "base/memory.hpp"
#include "unwind/cursor.hpp"

namespace vitrine::unwind {

/// DW_EH_PE_*: the low half is a format, the high half what it is relative to.
enum PointerEncoding : std::uint8_t {
  pointer_absolute = 0x00,
  pointer_uleb = 0x01,
  pointer_u2 = 0x02,
  pointer_u4 = 0x03,
  pointer_u8 = 0x04,
  pointer_sleb = 0x09,
  pointer_s2 = 0x0a,
  pointer_s4 = 0x0b,
  pointer_s8 = 0x0c,
  pointer_relative_to_itself = 0x10,
  pointer_relative_to_data = 0x30,
  pointer_indirect = 0x80,
  pointer_omitted = 0xff,
};

/// The number alone, sign-extended where its format has a sign; nullopt: no such format.
inline std::optional<std::uint64_t> read_number(Cursor& cursor, std::uint8_t encoding) {
  const auto extended = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  switch (encoding & 0x0f) {
    case pointer_absolute:
    case pointer_u8:
    case pointer_s8:
      return cursor.number<std::uint64_t>();
    case pointer_uleb:
      return cursor.uleb();
    case pointer_u2:
      return cursor.number<std::uint16_t>();
    case pointer_u4:
      return cursor.number<std::uint32_t>();
    case pointer_sleb:
      return extended(cursor.sleb());
    case pointer_s2:
      return extended(cursor.number<std::int16_t>());
    case pointer_s4:
      return extended(cursor.number<std::int32_t>());
    default:
      return std::nullopt;
  }
}

/// A pointer; `at`: the address of the cursor's first byte. nullopt: an encoding that no compiler
/// uses for code, or the bytes end.
inline std::optional<Address> read_pointer(Cursor& cursor, std::uint8_t encoding, Address at) {
  const Address here = at + cursor.position();
  const auto number = read_number(cursor, encoding);
  if (!number || cursor.failed()) return std::nullopt;
  switch (encoding & 0xf0) {
    case 0:
      return *number;
    case pointer_relative_to_itself:
      return here + *number;
    default:
      return std::nullopt;
  }
}

}  // namespace vitrine::unwind
