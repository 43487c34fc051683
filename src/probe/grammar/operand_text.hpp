// OperandText: an operand as its grammar reads it, its symbols still names. lower.hpp makes the
// flat shape of operand.h of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "probe/argument.hpp"

namespace vitrine::probe {

template <class T>
using Parsed = tl::expected<T, ArgumentError>;

inline tl::unexpected<ArgumentError> syntax_error(std::string message) {
  return tl::unexpected<ArgumentError>({ArgumentError::Kind::syntax, std::move(message)});
}
inline tl::unexpected<ArgumentError> unsupported(std::string message) {
  return tl::unexpected<ArgumentError>({ArgumentError::Kind::unsupported, std::move(message)});
}

/// What of a symbol the assembler puts in the place of its name.
enum class SymbolPart : std::uint8_t {
  address,        ///< plain
  got_slot,       ///< GOTPCREL: the address of the word that holds its address
  got_slot_bias,  ///< GOT: the same, from the global offset table
  got_bias,       ///< GOTOFF: its address, from the global offset table
  thread_offset,  ///< tpoff, ntpoff: of a thread-local variable, from the thread pointer
};

struct SymbolUse {
  std::string_view name;
  SymbolPart part = SymbolPart::address;
};

/// A constant expression: numbers, and at most one symbol.
struct Sum {
  std::uint64_t value = 0;  ///< wraps at 64 bits, as assemblers have it
  bool beyond_i64 = false;  ///< a number above INT64_MAX was written without a sign
  std::optional<SymbolUse> symbol;
};

/// A register, by its number in operand.h.
struct Register {
  std::uint8_t number = 0;
  std::uint8_t bytes = 0;  ///< as it is named: 4 for %eax
  std::uint8_t shift = 0;  ///< bits: 8 for %ah
};

struct OperandText {
  enum class Kind : std::uint8_t {
    constant,  ///< `sum`
    real,      ///< `real`
    value,     ///< what is in the register `base`
    memory     ///< what is at base + extend(index) << scale + sum
  };
  Kind kind = Kind::constant;
  std::optional<Register> base, index;
  std::uint8_t scale = 0;        ///< a shift
  std::uint8_t extend = 0;       ///< VITRINE_EXTEND_*
  bool thread_pointer = false;   ///< the address is from the thread pointer too
  bool symbol_is_place = false;  ///< the address is the symbol's: `base` only helped to make it
  Sum sum;
  double real = 0;
};

}  // namespace vitrine::probe
