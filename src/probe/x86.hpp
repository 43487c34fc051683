// Operands of x86-64 and i386, in the syntaxes of both kinds of assembler (docs/formats/sdt.md,
// "Operands of x86").
#pragma once

#include "probe/expression.hpp"

namespace vitrine::probe {

/// The register of that name, in lower case and without `%`. Errors: syntax (this machine has
/// none), unsupported (a vector register, …).
Parsed<Register> x86_register(std::string_view name, Machine machine);

/// Whether it is the name of any register, evaluated by us or not.
bool is_x86_register(std::string_view name, Machine machine);

/// The register in which compilers put the high half of a value that begins in `low`.
std::optional<std::uint8_t> x86_high_half(std::uint8_t low);

inline constexpr std::uint8_t x86_instruction_pointer = 16;
inline constexpr std::uint8_t x86_stack_pointer = 19;

/// An operand as `%rax`, `$5`, `-4(%rbp,%rcx,8)`, `x(%rip)`, `%fs:x@tpoff`.
Parsed<OperandText> parse_att(std::string_view text, Machine machine);

/// An operand as `rax`, `5`, `DWORD PTR -4[rbp+rcx*8]`, `QWORD PTR fs:x@tpoff`.
Parsed<OperandText> parse_intel(std::string_view text, Machine machine);

/// Whichever of both syntaxes the text is in.
Parsed<OperandText> parse_x86(std::string_view text, Machine machine);

/// What an assembler writes as a scale, as a shift. Error: none of 1, 2, 4, 8.
Parsed<std::uint8_t> x86_scale(std::uint64_t factor);

}  // namespace vitrine::probe
