#include "probe/float.hpp"

#include <bit>
#include <cmath>
#include <limits>

namespace vitrine::probe {
namespace {

std::uint64_t little_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

/// significand / 2^63 * 2^exponent, negative or not. The significand's last bit stands for all
/// below it too, so that the one rounding is right.
double compose(bool negative, std::uint64_t significand, int exponent) {
  const double value = std::ldexp(static_cast<double>(significand), exponent - 63);
  return negative ? -value : value;
}

/// All exponent bits set: infinite, or no number.
double special(bool negative, bool number) {
  const double value =
      number ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  return negative ? -value : value;
}

double of_half(std::uint64_t bits) {
  const bool negative = (bits >> 15 & 1) != 0;
  const auto exponent = static_cast<int>(bits >> 10 & 31);
  const auto fraction = static_cast<int>(bits & 1023);
  if (exponent == 31) return special(negative, fraction == 0);
  const double value =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  return negative ? -value : value;
}

double of_x87(std::span<const std::byte> bytes) {
  const std::uint64_t significand = little_endian(bytes.first(8));
  const std::uint64_t top = little_endian(bytes.subspan(8, 2));
  const bool negative = (top >> 15) != 0;
  const auto exponent = static_cast<int>(top & 0x7fff);
  if (exponent == 0x7fff) return special(negative, significand << 1 == 0);
  return compose(negative, significand, exponent - 16383);
}

double of_binary128(std::span<const std::byte> bytes) {
  const std::uint64_t low = little_endian(bytes.first(8)), high = little_endian(bytes.subspan(8));
  const bool negative = (high >> 63) != 0;
  const auto exponent = static_cast<int>(high >> 48 & 0x7fff);
  const std::uint64_t fraction = high << 16 >> 1 | low >> 49;  // its upper 63 bits
  const bool more = low << 15 != 0;
  if (exponent == 0x7fff) return special(negative, fraction == 0 && !more);
  if (exponent == 0) return negative ? -0.0 : 0.0;  // too small for a double
  return compose(negative, 1ULL << 63 | fraction | (more ? 1 : 0), exponent - 16383);
}

}  // namespace

double double_of_bytes(std::span<const std::byte> bytes) {
  switch (bytes.size()) {
    case 2:
      return of_half(little_endian(bytes));
    case 4:
      return std::bit_cast<float>(static_cast<std::uint32_t>(little_endian(bytes)));
    case 8:
      return std::bit_cast<double>(little_endian(bytes));
    case 10:
      return of_x87(bytes);
    case 16:
      return of_binary128(bytes);
    default:
      return 0;
  }
}

std::uint16_t half_of_double(double value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const auto with_sign = [&](unsigned bits) { return static_cast<std::uint16_t>(sign | bits); };
  if (std::isnan(value)) return with_sign(0x7e00);
  const double size = std::fabs(value);
  if (size >= 65520) return with_sign(0x7c00);
  if (size < 0x1p-14) return with_sign(static_cast<unsigned>(std::nearbyint(size * 0x1p24)));
  int exponent = 0;
  const double fraction = std::frexp(size, &exponent);                  // [0.5, 1)
  const auto bits = static_cast<int>(std::nearbyint(fraction * 2048));  // 1024 to 2048
  return with_sign(static_cast<unsigned>((exponent + 13) * 1024 + bits));
}

}  // namespace vitrine::probe
