// Build ids as text.
#pragma once

#include <string>

#include "base/hex.hpp"
#include "elf/notes.hpp"

namespace vitrine::elf {

/// The GNU build id of a file in lower-case hex; empty when it has none.
inline std::string hex_build_id(Memory& file, const File& elf) {
  return hex_text(build_id(file, elf));
}

}  // namespace vitrine::elf
