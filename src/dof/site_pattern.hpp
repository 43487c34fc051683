// The instructions that stand where a call of a probe stood: what the object step writes, and what
// an observer must find before it attaches anything (dof.md 3.3).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace vitrine::dof {

enum class Machine : std::uint8_t { x86_64, i386, aarch64 };

/// What the site is: a fire, or a question whether anyone looks, by protocol.
enum class Use : std::uint8_t { fire, enabled_register };

/// What the instruction was that the pattern replaced.
enum class Instruction : std::uint8_t { call, jump };

/// One pattern. `site` is where in `bytes` a uprobe goes.
struct SitePattern {
  Machine machine;
  Use use;
  Instruction instruction;
  bool ours;  ///< what we write; else what other implementations wrote
  std::array<std::uint8_t, 5> bytes;
  std::uint8_t length;  ///< of `bytes`: 5 or 4
  std::uint8_t site;
};

/// All patterns, ours first.
std::span<const SitePattern> site_patterns();

/// The pattern to write; none: there is none (aarch64's is-enabled jump takes two instructions: a
/// stub does it).
std::optional<SitePattern> pattern_to_write(Machine machine, Use use, Instruction instruction);

/// The pattern whose site is at `site` in `code` (the bytes around it): which one stands there.
std::optional<SitePattern> pattern_at(std::span<const std::byte> code, std::size_t site,
                                      Machine machine, Use use);

}  // namespace vitrine::dof
