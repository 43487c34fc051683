// The instructions that stand where a call of a probe stood: what the object step writes, and what
// an observer must find before it attaches anything (docs/formats/dof.md, "Site patterns").
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/machine.hpp"

namespace vitrine::dof {

/// What a site is: a fire, or a question whether anyone looks, which the tracer answers in the
/// register of the return value (DOF version 2). A question of version 3 looks as a fire does: its
/// first argument is where the answer goes.
///
/// Ours of version 2 on x86 need no tracer that writes registers, which few kernels allow: they load
/// the answer from an operand of their own instruction, `push $0; pop %eax`. A uprobe on the byte of
/// that 0 is never hit; but as long as it is there the kernel keeps a breakpoint's 0xcc in the byte,
/// and the answer is -52. It goes with the last tracer, however that ends.
enum class Use : std::uint8_t { fire, enabled_register };

/// What the pattern replaced: a call, a jump in its place, or nothing: a stub is a function of its
/// own. In a stub and after a jump, the return address is on the stack (x86).
enum class Instruction : std::uint8_t { call, jump, stub };

/// One pattern. `site` is where in `bytes` a uprobe goes.
struct SitePattern {
  Machine machine;
  Use use;
  Instruction instruction;
  bool ours;      ///< what we write; else what other implementations wrote
  bool long_nop;  ///< one 5-byte nop: cheaper to probe on kernels that know how, on others not
  std::uint8_t site;
  std::uint8_t length;  ///< of `bytes`; what replaced an instruction is as long as that
  std::array<std::uint8_t, 12> bytes;
  std::uint8_t answer = 0;  ///< where in `bytes` a breakpoint makes the answer true; 0: nowhere

  [[nodiscard]] std::span<const std::uint8_t> code() const {
    return std::span(bytes).first(length);
  }
};

/// All patterns, ours first.
std::span<const SitePattern> site_patterns();

/// The pattern to write; none: there is none (aarch64's question takes two instructions: a stub
/// asks it). `long_nop`: where there is such a variant (calls of x86).
std::optional<SitePattern> pattern_to_write(Machine machine, Use use, Instruction instruction,
                                            bool long_nop = false);

/// Which pattern's site is at `site` in `code` (the bytes around it): of several, the longest.
std::optional<SitePattern> pattern_at(std::span<const std::byte> code, std::size_t site,
                                      Machine machine, Use use);

}  // namespace vitrine::dof
