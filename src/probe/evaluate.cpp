#include "probe/evaluate.hpp"

#include <fmt/format.h>

#include <algorithm>
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

/// significand / 2^63 * 2^exponent, negative or not. The significand's last bit represents all
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

namespace {

std::uint64_t register_word(const Registers& registers, std::uint8_t number) {
  return number < VITRINE_NO_REGISTER ? registers.words[number] : 0;
}

std::uint64_t extended(std::uint64_t word, std::uint8_t extend) {
  if (extend == VITRINE_EXTEND_U32) return static_cast<std::uint32_t>(word);
  if (extend == VITRINE_EXTEND_S32)
    return static_cast<std::uint64_t>(
        static_cast<std::int64_t>(static_cast<std::int32_t>(static_cast<std::uint32_t>(word))));
  return word;
}

/// Puts the low `count` bytes of `word` into `into`, from `at` on, as far as there is room.
void put(std::vector<std::byte>& into, std::size_t at, std::uint64_t word, std::size_t count) {
  for (std::size_t i = 0; i < count && at + i < into.size(); ++i)
    into[at + i] = static_cast<std::byte>(word >> 8 * i);
}

Address effective_address(const vitrine_operand& operand, const Registers& registers) {
  const std::uint64_t index = extended(register_word(registers, operand.index), operand.extend);
  const Address address = register_word(registers, operand.base) + (index << (operand.scale & 63)) +
                          operand.displacement;
  return (operand.flags & VITRINE_ADDRESS_32) != 0 ? static_cast<std::uint32_t>(address) : address;
}

std::uint64_t low_bytes(std::span<const std::byte> bytes) {
  return little_endian(bytes.first(std::min<std::size_t>(bytes.size(), 8)));
}

std::int64_t sign_extended(std::uint64_t value, std::size_t bytes) {
  const auto unused = static_cast<unsigned>(64 - 8 * std::min<std::size_t>(bytes, 8));
  return unused >= 64 ? 0 : static_cast<std::int64_t>(value << unused) >> unused;
}

Value enumerator(std::int64_t value, bool is_signed, const ArgumentType& type) {
  const auto found = std::find_if(type.enumerators.begin(), type.enumerators.end(),
                                  [&](const Enumerator& one) { return one.value == value; });
  return EnumeratorValue{value, found == type.enumerators.end() ? std::string() : found->name,
                         !is_signed && value < 0};
}

/// A value that fits into a word, and is no floating-point number.
Value make_word(const vitrine_operand& operand, std::span<const std::byte> bytes,
                const ArgumentType* type) {
  const std::uint64_t word = low_bytes(bytes);
  const bool is_signed = (operand.flags & VITRINE_SIGNED) != 0;
  switch (type == nullptr ? ValueKind::integer : type->kind) {
    case ValueKind::boolean:
      return word != 0;
    case ValueKind::pointer:
    case ValueKind::c_string:
    case ValueKind::string_view:
    case ValueKind::bytes:
      return PointerValue{word};
    case ValueKind::enumeration:
      return enumerator(
          is_signed ? sign_extended(word, bytes.size()) : static_cast<std::int64_t>(word),
          is_signed, *type);
    case ValueKind::integer:
    case ValueKind::floating:
      break;
  }
  if (is_signed) return sign_extended(word, bytes.size());
  return word;
}

}  // namespace

Result<std::vector<std::byte>> evaluate(const vitrine_operand& operand, const Registers& registers,
                                        Memory& memory) {
  constexpr std::size_t word_bytes = 8;
  std::vector<std::byte> bytes(operand.size);
  switch (operand.kind) {
    case VITRINE_CONSTANT: {
      const std::uint64_t word = register_word(registers, operand.base) + operand.displacement;
      put(bytes, 0, word, word_bytes);
      put(bytes, word_bytes, (word >> 63) != 0 ? UINT64_MAX : 0, word_bytes);
      return bytes;
    }
    case VITRINE_REGISTER: {
      const std::size_t half = (operand.flags & VITRINE_ADDRESS_32) != 0 ? 4 : word_bytes;
      const bool pair = operand.index != VITRINE_NO_REGISTER;
      put(bytes, 0, register_word(registers, operand.base) >> (operand.shift & 63),
          pair ? half : word_bytes);
      if (pair) put(bytes, half, register_word(registers, operand.index), half);
      return bytes;
    }
    case VITRINE_MEMORY: {
      const Address address = effective_address(operand, registers);
      TRY(memory.read_exact(address, bytes, "the argument"));
      return bytes;
    }
    default:
      return fail(ErrorCode::unsupported, fmt::format("an operand of kind {}", operand.kind));
  }
}

bool is_cut(const Value& value) {
  if (const auto* text = std::get_if<StringValue>(&value)) return text->truncated;
  const auto* bytes = std::get_if<BytesValue>(&value);
  return bytes != nullptr && bytes->truncated;
}

Value make_value(const vitrine_operand& operand, std::span<const std::byte> bytes,
                 const ArgumentType* type) {
  if (bytes.empty()) return ValueError{"it has no bytes"};
  const std::size_t size = bytes.size();
  const bool is_float = (operand.flags & VITRINE_FLOAT) != 0 ||
                        (type != nullptr && type->kind == ValueKind::floating);
  if (is_float && (size == 2 || size == 4 || size == 8 || size == 10 || size == 16))
    return double_of_bytes(bytes);
  if (size <= 8) return make_word(operand, bytes, type);
  return BytesValue{{bytes.begin(), bytes.end()}, (operand.flags & VITRINE_CUT) != 0};
}

namespace {

struct Hidden {
  const Redaction& redaction;

  Value operator()(std::int64_t number) const { return text(std::to_string(number)); }
  Value operator()(std::uint64_t number) const { return text(std::to_string(number)); }
  Value operator()(double number) const { return text(fmt::format("{}", number)); }
  Value operator()(bool truth) const { return text(truth ? "true" : "false"); }
  Value operator()(const PointerValue& pointer) const { return text(hex(pointer.address)); }
  Value operator()(const EnumeratorValue& value) const {
    return text(!value.name.empty() ? value.name : value.with_number([](auto number) {
      return std::to_string(number);
    }));
  }
  Value operator()(const StringValue& string) const { return text(string.text, string.truncated); }
  Value operator()(const BytesValue& bytes) const {
    const auto* first = reinterpret_cast<const char*>(bytes.bytes.data());
    return text({first, bytes.bytes.size()}, bytes.truncated);
  }
  Value operator()(const ListValue& list) const { return list; }
  Value operator()(const ValueError& error) const { return error; }

 private:
  Value text(std::string_view bytes, bool truncated = false) const {
    return StringValue{redaction.replacement(bytes), truncated};
  }
};

}  // namespace

Value redacted(const Value& value, const Redaction& redaction) {
  return std::visit(Hidden{redaction}, value);
}

}  // namespace vitrine::probe
