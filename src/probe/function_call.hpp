// Where the parameters of a function are when it is entered, and its result when it returns: System
// V x86-64, i386 and AAPCS64.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/machine.hpp"

namespace vitrine::probe {

/// What is passed for one parameter.
struct PassedValue {
  std::uint8_t bytes = 8;    ///< of a value of one word
  bool is_signed = false;    ///< that
  std::uint8_t words = 1;    ///< integer registers
  std::uint8_t vectors = 0;  ///< vector registers
  bool in_memory = false;    ///< on the stack in any case
  bool is_aligned = false;   ///< to two words
};

class FunctionCall {
 public:
  explicit FunctionCall(Machine machine);

  /// Operands for compile_argument(), one a word, of the next parameter; "? why" where none can be
  /// evaluated.
  std::vector<std::string> next(const PassedValue& value);

  /// A register by DWARF's number.
  [[nodiscard]] std::string in_register(std::uint8_t number, const PassedValue& value) const;

  /// What no caller passes: the same value in each call.
  [[nodiscard]] std::string constant(std::uint64_t number, const PassedValue& value) const;

  /// Word `index` of a result.
  [[nodiscard]] std::string result(const PassedValue& value, std::size_t index = 0) const;

  /// Registers that carry parameters, as operands: all that is known of a function without debug
  /// information. `go`: by Go's own convention.
  [[nodiscard]] std::vector<std::string> registers(bool go) const;

  /// The stack pointer, and what a call has put on the stack: at the return of a function the stack
  /// pointer is so much more than at its entry.
  [[nodiscard]] std::string stack_pointer() const;
  [[nodiscard]] std::uint64_t pushed_by_call() const;

 private:
  void on_stack(std::uint64_t size, const PassedValue& value, std::vector<std::string>& words);

  Machine machine_;
  std::size_t integers_ = 0, vectors_ = 0;  ///< taken
  std::uint64_t stack_ = 0;                 ///< bytes of it
};

}  // namespace vitrine::probe
