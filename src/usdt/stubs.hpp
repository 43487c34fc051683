// Functions that stand in for a probe where its call was not patched (docs/formats/object-step.md,
// "Stubs"): in objects that nobody processed or that -flto made, behind addresses, conditional
// jumps and the GOT.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "dof/site_pattern.hpp"
#include "usdt/machine.hpp"

namespace vitrine::usdt {

struct Stub {
  std::vector<std::byte> code;
  std::uint32_t site = 0;  ///< where in it a uprobe goes
  std::uint32_t data = 0;  ///< where its code ends, and what makes it unlike all others begins
};

/// The stub of the probe with this symbol.
Stub make_stub(const ObjectMachine& machine, dof::Use use, std::string_view symbol);

}  // namespace vitrine::usdt
