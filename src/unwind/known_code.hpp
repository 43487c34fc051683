// Code that compilers did not write and that often comes without CFI, but looks the same everywhere.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "unwind/rule.hpp"

namespace vitrine::unwind {

/// The row within a procedure linkage table: lld writes no CFI for it. `section`: its name;
/// `offset`: of the pc in it. nullopt: not a section of this kind.
std::optional<Row> linkage_row(Machine machine, std::string_view section, std::uint64_t offset);

/// Bytes that signal_row wants to see.
inline constexpr std::size_t signal_code_bytes = 10;

/// The row of the code to which a signal handler returns, told by its instructions: musl's has no
/// CFI, and no CFI could tell the pc and the link register of the interrupted function on aarch64.
/// nullopt: the code is something else.
std::optional<Row> signal_row(Machine machine, std::span<const std::byte> code);

}  // namespace vitrine::unwind
