// Floating-point formats that this machine's compiler may not know: half, x87, binary128.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace vitrine::probe {

/// The number in 2, 4, 8, 10 (x87) or 16 (binary128) little-endian bytes, rounded to a double.
/// Other sizes are not numbers: 0.
double double_of_bytes(std::span<const std::byte> bytes);

/// The bits of the half-precision number nearest to `value`.
std::uint16_t half_of_double(double value);

}  // namespace vitrine::probe
