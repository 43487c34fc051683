// Operands of the machines that have one syntax each (docs/formats/sdt.md,
// "Operands of other machines").
#pragma once

#include "probe/expression.hpp"

namespace vitrine::probe {

Parsed<OperandText> parse_aarch64(std::string_view text);
Parsed<OperandText> parse_arm(std::string_view text);
Parsed<OperandText> parse_ppc64(std::string_view text);
Parsed<OperandText> parse_s390x(std::string_view text);
Parsed<OperandText> parse_riscv64(std::string_view text);
Parsed<OperandText> parse_loongarch64(std::string_view text);

/// Takes a number, whole or real, or a symbol: where `#` may stand before it, it means nothing.
Parsed<OperandText> parse_constant(Cursor& cursor);

/// The register whose name is `prefix` and a number up to `last`.
std::optional<Register> numbered_register(std::string_view name, std::string_view prefix,
                                          unsigned last, std::uint8_t bytes);

/// What is left when an operand has been taken is an error.
Parsed<OperandText> complete(Parsed<OperandText> operand, Cursor& cursor);

}  // namespace vitrine::probe
