// Position: the registers as they were in one frame, as far as they are known.
#pragma once

#include <optional>

#include "unwind/registers.hpp"

namespace vitrine::unwind {

struct Position {
  Registers registers;
  std::uint64_t known = (std::uint64_t{1} << register_count) - 1;  ///< bit n: register n is

  [[nodiscard]] bool knows(std::size_t number) const { return (known >> number & 1) != 0; }

  [[nodiscard]] std::optional<std::uint64_t> get(std::uint64_t number) const {
    if (number >= register_count || !knows(static_cast<std::size_t>(number))) return std::nullopt;
    return registers.words[static_cast<std::size_t>(number)];
  }
  void set(std::size_t number, std::optional<std::uint64_t> value) {
    registers.words[number] = value.value_or(0);
    const std::uint64_t bit = std::uint64_t{1} << number;
    known = value ? known | bit : known & ~bit;
  }
};

}  // namespace vitrine::unwind
