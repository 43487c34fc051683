// Evaluating operands in user space, as the kernel side does at a fire.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/memory.hpp"
#include "base/redaction.hpp"
#include "probe/operand.h"
#include "probe/probe.hpp"

namespace vitrine::probe {

// Floating-point formats that this machine's compiler may not know: half, x87, binary128.

/// The number in 2, 4, 8, 10 (x87) or 16 (binary128) little-endian bytes, rounded to a double.
/// Other sizes are not numbers: 0.
double double_of_bytes(std::span<const std::byte> bytes);

/// The bits of the half-precision number nearest to `value`.
std::uint16_t half_of_double(double value);

// Evaluating operands in user space: what the kernel side does at a fire, on any registers and
// memory; and making a typed value of what either of them got.

/// Registers by their number in operand.h.
struct Registers {
  std::array<std::uint64_t, 64> words{};
};

struct PointerValue {
  std::uint64_t address = 0;
  bool is_absent = false;  ///< NULL, where text or bytes were asked for
  bool operator==(const PointerValue&) const = default;
};
struct EnumeratorValue {
  std::int64_t value = 0;
  std::string name;       ///< empty: none of those listed
  bool is_large = false;  ///< `value` has the bits of a number of 2^63 or more

  /// Calls `use` with the number, an int64_t or a uint64_t.
  template <class Use>
  [[nodiscard]] auto with_number(Use&& use) const {
    return is_large ? use(static_cast<std::uint64_t>(value)) : use(value);
  }
  bool operator==(const EnumeratorValue&) const = default;
};
struct BytesValue {
  std::vector<std::byte> bytes;
  bool truncated = false;
  bool operator==(const BytesValue&) const = default;
};
struct StringValue {
  std::string text;  ///< any bytes
  bool truncated = false;
  bool operator==(const StringValue&) const = default;
};
struct ValueError {
  std::string message;
  bool operator==(const ValueError&) const = default;
};

/// Several texts, such as the functions of a stack.
struct ListValue {
  std::vector<std::string> items;
  bool operator==(const ListValue&) const = default;
};

/// A fired argument, ready to be shown.
using Value = std::variant<std::int64_t, std::uint64_t, double, bool, PointerValue, EnumeratorValue,
                           StringValue, BytesValue, ListValue, ValueError>;

/// Whether it is only the beginning of a value: another's may have the same.
bool is_cut(const Value& value);

/// The operand's bytes, `size` of them in the target's (little-endian) order. Error: not readable.
Result<std::vector<std::byte>> evaluate(const vitrine_operand& operand, const Registers& registers,
                                        Memory& memory);

/// A number of the operand's bytes; `type`, where known, decides between pointer, bool and
/// enumerator. Strings are not followed here. 10-byte and 16-byte floats are converted to double.
Value make_value(const vitrine_operand& operand, std::span<const std::byte> bytes,
                 const ArgumentType* type);

// Values of fired arguments that must not be shown.

/// What replaces `value`: for text and bytes by what they hold, for all else by how it is written.
/// What could not be read stays as it is.
Value redacted(const Value& value, const Redaction& redaction);

}  // namespace vitrine::probe
