// Where a uprobe may go: which nops this kernel turns into calls, and whether that is safe
// (docs/formats/sdt.md, "Nops and kernels"). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "probe/probe.hpp"

namespace vitrine::bpf {

/// What the kernel makes of nops under uprobes.
enum class NopClass : std::uint8_t {
  plain,        ///< a breakpoint, always
  unsafe_nop5,  ///< a 5-byte nop becomes a call that writes into the red zone and that a forked
                ///< child crashes on (Linux 6.18)
  nop10,        ///< the one 10-byte nop of `nop10_bytes` becomes a safe call
};

/// From the errno of a stray call of uprobe(2), system call 336 of x86-64.
NopClass nop_class_of(int uprobe_errno);

/// Asks the running kernel.
NopClass kernel_nop_class();

/// What follows the one-byte nop of a probe of vitrine's header: cs nopw 0(%rax,%rax,1).
inline constexpr std::uint8_t nop10_bytes[10] = {0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0};

/// How many bytes at a site decide: the one-byte nop and what follows it.
inline constexpr std::size_t site_bytes = 16;

enum class SiteCost : std::uint8_t {
  breakpoint,  ///< emulated: about half a microsecond a fire
  call,        ///< optimised
  step,        ///< single-stepped: ten microseconds and more
};

struct SitePlan {
  unsigned skip = 0;  ///< bytes from the site to the uprobe: 0 or 1
  SiteCost cost = SiteCost::breakpoint;
  bool operator==(const SitePlan&) const = default;
};

/// Decides for the bytes of the *file* at a site (as many as there are, up to `site_bytes`).
/// `force`: attach even where it is known to be unsafe. `verified`: an instruction does begin there,
/// a nop or not. Errors: unsupported, with the reason (a nop that this kernel would turn into an
/// unsafe call, an instruction that uprobes refuse).
Result<SitePlan> plan_site(std::span<const std::byte> bytes, Machine machine, NopClass kernel,
                           bool force, bool verified = false);

}  // namespace vitrine::bpf
