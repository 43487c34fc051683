#include "probe/evaluate.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "probe/float.hpp"

namespace vitrine::probe {
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
  std::uint64_t value = 0;
  for (std::size_t i = std::min<std::size_t>(bytes.size(), 8); i-- > 0;)
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

std::int64_t sign_extended(std::uint64_t value, std::size_t bytes) {
  const auto unused = static_cast<unsigned>(64 - 8 * std::min<std::size_t>(bytes, 8));
  return unused >= 64 ? 0 : static_cast<std::int64_t>(value << unused) >> unused;
}

Value enumerator(std::int64_t value, const ArgumentType& type) {
  const auto found = std::find_if(type.enumerators.begin(), type.enumerators.end(),
                                  [&](const Enumerator& one) { return one.value == value; });
  return EnumeratorValue{value, found == type.enumerators.end() ? std::string() : found->name};
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
          is_signed ? sign_extended(word, bytes.size()) : static_cast<std::int64_t>(word), *type);
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

}  // namespace vitrine::probe
