// Build ids as text.
#pragma once

#include <fmt/format.h>

#include <string>

#include "elf/notes.hpp"

namespace vitrine::elf {

/// The GNU build id of a file in lower-case hex; empty when it has none.
inline std::string hex_build_id(Memory& file, const File& elf) {
  std::string text;
  for (const std::byte byte : build_id(file, elf))
    text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

}  // namespace vitrine::elf
