// LLVM bitcode: what clang -flto writes instead of an object file.
#pragma once

#include <cstddef>
#include <span>

#include "usdt/machine.hpp"

namespace vitrine::usdt {

bool is_bitcode(std::span<const std::byte> bytes);

/// The machine that it is to become code of, by the target triple in its table of strings; null: it
/// does not tell, or another machine.
const ObjectMachine* bitcode_machine(std::span<const std::byte> bytes);

}  // namespace vitrine::usdt
