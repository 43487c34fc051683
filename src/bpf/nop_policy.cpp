#include "bpf/nop_policy.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

namespace vitrine::bpf {
namespace {

/// A no-operation of x86-64.
struct Nop {
  std::size_t length = 0;
  bool refused_prefix = false;  ///< a segment or lock prefix: uprobes refuse the instruction
};

constexpr std::uint8_t refused_prefixes[] = {0x26, 0x2e, 0x36, 0x3e, 0xf0};

std::uint8_t byte_at(std::span<const std::byte> code, std::size_t i) {
  return i < code.size() ? std::to_integer<std::uint8_t>(code[i]) : 0;
}

std::optional<Nop> nop_at(std::span<const std::byte> code) {
  Nop nop;
  const auto at = [&](std::size_t i) { return byte_at(code, i); };
  std::size_t i = 0;
  for (; i < code.size(); ++i) {
    const bool refused = std::ranges::count(refused_prefixes, at(i)) != 0;
    nop.refused_prefix = nop.refused_prefix || refused;
    const bool other = at(i) == 0x66 || at(i) == 0xf3 || (at(i) >= 0x40 && at(i) <= 0x4f);
    if (!refused && !other) break;
  }
  if (i < code.size() && at(i) == 0x90) {
    nop.length = i + 1;
    return nop;
  }
  if (i + 2 >= code.size() || at(i) != 0x0f || at(i + 1) != 0x1f) return std::nullopt;
  const std::uint8_t modrm = at(i + 2);
  const unsigned mode = modrm >> 6;
  const bool has_index = mode != 3 && (modrm & 7) == 4;
  if (has_index && i + 3 >= code.size()) return std::nullopt;
  const bool bare_displacement =
      mode == 0 && ((modrm & 7) == 5 || (has_index && (at(i + 3) & 7) == 5));
  const std::size_t displacement = mode == 1 ? 1 : (mode == 2 || bare_displacement ? 4 : 0);
  nop.length = i + 3 + (has_index ? 1 : 0) + displacement;
  if (nop.length > code.size()) return std::nullopt;
  return nop;
}

bool is_nop10(std::span<const std::byte> code) {
  return code.size() >= sizeof nop10_bytes &&
         std::memcmp(code.data(), nop10_bytes, sizeof nop10_bytes) == 0;
}

/// Instructions whose effect the kernel has by itself, rather than have the thread execute them:
/// nops without a REX prefix and, if they are 0f 1f, without any other but in 66 0f 1f 44; short
/// jumps; pushes.
bool is_emulated(std::span<const std::byte> code) {
  std::size_t i = 0;
  while (byte_at(code, i) == 0x66) ++i;
  if (byte_at(code, i) == 0x90) return true;
  if (byte_at(code, i) == 0x0f && byte_at(code, i + 1) == 0x1f)
    return i == 0 || (i == 1 && byte_at(code, i + 2) == 0x44);
  const std::uint8_t first = byte_at(code, 0);
  if (first == 0xf3) return byte_at(code, 1) == 0x90;
  return first == 0xeb || (first >= 0x50 && first <= 0x57);
}

/// Every probe is a nop. Where there is none the note may be wrong, and a breakpoint in the middle of
/// an instruction changes what the program does.
Result<SitePlan> plan_no_nop(SiteCost cost, bool begins) {
  if (begins) return SitePlan{0, cost};
  return fail(ErrorCode::unsupported,
              "the instruction is not the nop that the note declares; a breakpoint in the middle "
              "of another instruction would break the program",
              "use --force if an instruction begins there");
}

Result<SitePlan> plan_x86_64(std::span<const std::byte> code, NopClass kernel, bool force,
                             bool verified) {
  const auto cost = is_emulated(code) ? SiteCost::breakpoint : SiteCost::step;
  const auto nop = nop_at(code);
  if (!nop) return plan_no_nop(cost, force || verified);
  if (is_nop10(code) && kernel == NopClass::nop10) return SitePlan{0, SiteCost::call};
  if (nop->refused_prefix)
    return fail(ErrorCode::unsupported,
                "its instruction has a prefix that uprobes of this kernel reject or miss");
  if (nop->length == 5 && kernel == NopClass::unsafe_nop5) {
    if (!force)
      return fail(ErrorCode::unsupported,
                  "its instruction is a 5-byte nop, which this kernel turns into a call that can "
                  "overwrite data below the stack pointer, and that crashes a forked child",
                  "use --force if the program does not fork and was compiled with -mno-red-zone, "
                  "or use another kernel");
    return SitePlan{0, SiteCost::call};
  }
  if (nop->length == 1 && kernel == NopClass::nop10 && is_nop10(code.subspan(1)))
    return SitePlan{1, SiteCost::call};
  return SitePlan{0, cost};
}

}  // namespace

NopClass nop_class_of(int uprobe_errno) {
  if (uprobe_errno == ENXIO) return NopClass::unsafe_nop5;
  if (uprobe_errno == EPROTO) return NopClass::nop10;
  return NopClass::plain;
}

NopClass kernel_nop_class() {
#ifdef __x86_64__
  constexpr long uprobe_call = 336;
  return ::syscall(uprobe_call) == -1 ? nop_class_of(errno) : NopClass::plain;
#else
  return NopClass::plain;
#endif
}

Result<SitePlan> plan_site(std::span<const std::byte> bytes, Machine machine, NopClass kernel,
                           bool force, bool verified) {
  if (bytes.empty()) return fail(ErrorCode::malformed, "the file ends before its instruction");
  if (machine == Machine::x86_64 || machine == Machine::i386) {
    // Only 64-bit tasks have their nops turned into calls.
    const NopClass here = machine == Machine::x86_64 ? kernel : NopClass::plain;
    return plan_x86_64(bytes.first(std::min(bytes.size(), site_bytes)), here, force, verified);
  }
  constexpr std::uint8_t aarch64_nop[4] = {0x1f, 0x20, 0x03, 0xd5};
  const bool is_nop = machine == Machine::aarch64 && bytes.size() >= sizeof aarch64_nop &&
                      std::memcmp(bytes.data(), aarch64_nop, sizeof aarch64_nop) == 0;
  return is_nop ? SitePlan{0, SiteCost::breakpoint}
                : plan_no_nop(SiteCost::step, force || verified);
}

}  // namespace vitrine::bpf
