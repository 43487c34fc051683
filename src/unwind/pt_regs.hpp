// The registers of a thread as the kernel's programs see them.
#pragma once

#include <optional>
#include <span>

#include "unwind/registers.hpp"

namespace vitrine::unwind {

/// From the 64-bit words of a struct pt_regs: 21 on x86-64 (arch/x86/include/asm/ptrace.h), 34 on
/// aarch64 (struct user_pt_regs, arch/arm64/include/uapi/asm/ptrace.h); more may follow. nullopt:
/// fewer.
std::optional<Registers> from_pt_regs(Machine machine, std::span<const std::uint64_t> words);

}  // namespace vitrine::unwind
