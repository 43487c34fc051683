// Functions of Go programs by .gopclntab, which they have also when they are stripped.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/memory.hpp"
#include "elf/file.hpp"

namespace vitrine::symbol {

/// Called with the address and the name of each function.
using VisitGoFunction = std::function<void(Address, std::string_view)>;

/// Whether a file was made by the Go tool chain.
bool is_go_file(const elf::File& elf);

/// Visits the functions of a table of Go 1.18 or later. What is malformed ends it.
void visit_go_functions(Memory& file, const elf::File& elf, const VisitGoFunction& visit);

}  // namespace vitrine::symbol
