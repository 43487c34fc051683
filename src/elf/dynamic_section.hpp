// The dynamic section of a file: what it tells the dynamic linker, by tag.
#pragma once

#include <optional>

#include "elf/file.hpp"

namespace vitrine::elf {

/// The first value of `tag` (DT_*); nullopt: the file has none.
std::optional<std::uint64_t> dynamic_value(Memory& file, const File& elf, std::int64_t tag);

/// Whether the file is a program, not a library: its thread-local block is then at a place that its
/// linker knew.
bool is_program(Memory& file, const File& elf);

}  // namespace vitrine::elf
