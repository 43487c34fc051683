// Source lines of code that was written in assembly, by its line table alone.
//
// The unit of an assembler has nothing beside that: no functions, no inlined code. To read it takes all of .debug_info
// before it, which for libc's clone3, at the end of nearly each stack of a thread, is 4 MiB to be decompressed. Units
// are listed by where their code begins (.debug_aranges), and a line table begins with that address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "elf/file.hpp"
#include "symbol/symboliser.hpp"

namespace vitrine::symbol {

struct LineSections {
  std::span<const std::byte> lines;    ///< .debug_line
  std::span<const std::byte> strings;  ///< .debug_line_str
};

/// The most bytes that a unit has in .debug_info if it may be one of an assembler.
constexpr std::uint64_t max_assembly_unit = 160;

/// Whether find_assembly_line() may find anything; reads nothing of the sections.
bool has_assembly_lines(const LineSections& sections, const elf::File& elf);

/// One frame without a name. Empty: no table of DWARF 5 begins with `start` and has the address, or its source file is
/// not one of assembly. `elf`: of the file.
Frames find_assembly_line(const LineSections& sections, const elf::File& elf, Address start,
                          Address address);

}  // namespace vitrine::symbol
