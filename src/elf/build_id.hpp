// Build ids as text.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string>

#include "elf/notes.hpp"

namespace vitrine::elf {

/// In lower-case hex.
inline std::string build_id_text(std::span<const std::byte> id) {
  std::string text;
  for (const std::byte byte : id) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

/// The GNU build id of a file; empty when it has none.
inline std::string hex_build_id(Memory& file, const File& elf) {
  return build_id_text(build_id(file, elf));
}

}  // namespace vitrine::elf
