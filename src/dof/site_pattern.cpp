#include "dof/site_pattern.hpp"

#include <algorithm>
#include <cstring>

namespace vitrine::dof {
namespace {

using enum Machine;
using enum Use;
using enum Instruction;

constexpr bool ours = true, others = false;
constexpr bool short_nops = false, long_nop = true;

// A site is on a nop: the kernel emulates that; on anything else it single-steps, 15 times slower.
// aarch64's question has no room for `mov w0, #0` and a nop after it, on which a tracer could answer:
// its calls are left to the stub. Nops and then a `ret` would not be told from a patched call before
// a `ret` of the caller's own, so that x86's stub is `nop; ret`.
constexpr SitePattern patterns[] = {
    {x86_64, fire, call, ours, short_nops, 0, 5, {0x90, 0x90, 0x90, 0x90, 0x90}},
    {x86_64, fire, call, ours, long_nop, 0, 5, {0x0f, 0x1f, 0x44, 0x00, 0x00}},
    {x86_64, fire, jump, ours, short_nops, 0, 5, {0x90, 0xc3, 0x90, 0x90, 0x90}},
    {x86_64, fire, stub, ours, short_nops, 0, 2, {0x90, 0xc3}},
    {x86_64, enabled_register, call, ours, short_nops, 3, 5, {0x6a, 0x00, 0x58, 0x90, 0x90}, 1},
    {x86_64, enabled_register, jump, ours, short_nops, 3, 5, {0x6a, 0x00, 0x58, 0x90, 0xc3}, 1},
    {x86_64, enabled_register, stub, ours, short_nops, 3, 5, {0x6a, 0x00, 0x58, 0x90, 0xc3}, 1},

    {i386, fire, call, ours, short_nops, 0, 5, {0x90, 0x90, 0x90, 0x90, 0x90}},
    {i386, fire, call, ours, long_nop, 0, 5, {0x0f, 0x1f, 0x44, 0x00, 0x00}},
    {i386, fire, jump, ours, short_nops, 0, 5, {0x90, 0xc3, 0x90, 0x90, 0x90}},
    {i386, fire, stub, ours, short_nops, 0, 2, {0x90, 0xc3}},
    {i386, enabled_register, call, ours, short_nops, 3, 5, {0x6a, 0x00, 0x58, 0x90, 0x90}, 1},
    {i386, enabled_register, jump, ours, short_nops, 3, 5, {0x6a, 0x00, 0x58, 0x90, 0xc3}, 1},
    {i386, enabled_register, stub, ours, short_nops, 3, 5, {0x6a, 0x00, 0x58, 0x90, 0xc3}, 1},

    // nop; ret; mov w0, #0
    {aarch64, fire, call, ours, short_nops, 0, 4, {0x1f, 0x20, 0x03, 0xd5}},
    {aarch64, fire, jump, ours, short_nops, 0, 4, {0xc0, 0x03, 0x5f, 0xd6}},
    {aarch64, fire, stub, ours, short_nops, 0, 8, {0x1f, 0x20, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6}},
    {aarch64,
     enabled_register,
     stub,
     ours,
     short_nops,
     4,
     12,
     {0x00, 0x00, 0x80, 0x52, 0x1f, 0x20, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6}},

    // dtrace -G of illumos, FreeBSD and Oracle.
    {x86_64, fire, jump, others, short_nops, 0, 5, {0xc3, 0x90, 0x90, 0x90, 0x90}},
    {x86_64, enabled_register, call, others, short_nops, 3, 5, {0x48, 0x33, 0xc0, 0x90, 0x90}},
    {x86_64, enabled_register, jump, others, short_nops, 3, 5, {0x48, 0x33, 0xc0, 0xc3, 0x90}},
    {i386, fire, jump, others, short_nops, 0, 5, {0xc3, 0x90, 0x90, 0x90, 0x90}},
    {i386, enabled_register, call, others, short_nops, 2, 5, {0x33, 0xc0, 0x90, 0x90, 0x90}},
    {i386, enabled_register, jump, others, short_nops, 2, 5, {0x33, 0xc0, 0xc3, 0x90, 0x90}},
    // The same with the site on a nop.
    {x86_64, enabled_register, call, others, short_nops, 2, 5, {0x31, 0xc0, 0x90, 0x90, 0x90}},
    {x86_64, enabled_register, jump, others, short_nops, 2, 5, {0x31, 0xc0, 0x90, 0xc3, 0x90}},
    {i386, enabled_register, jump, others, short_nops, 2, 5, {0x31, 0xc0, 0x90, 0xc3, 0x90}},
    // FreeBSD leaves in w0 what was there: the question has a random answer.
    {aarch64, enabled_register, call, others, short_nops, 0, 4, {0x00, 0x00, 0x80, 0x52}},
    {aarch64, enabled_register, call, others, short_nops, 0, 4, {0x1f, 0x20, 0x03, 0xd5}},
    {aarch64, enabled_register, jump, others, short_nops, 0, 4, {0xc0, 0x03, 0x5f, 0xd6}},
};

bool is_at(const SitePattern& pattern, std::span<const std::byte> code, std::size_t site) {
  if (site < pattern.site || site > code.size()) return false;
  const auto at = code.subspan(site - pattern.site);
  return at.size() >= pattern.length &&
         std::memcmp(at.data(), pattern.bytes.data(), pattern.length) == 0;
}

}  // namespace

std::span<const SitePattern> site_patterns() {
  return patterns;
}

std::optional<SitePattern> pattern_to_write(Machine machine, Use use, Instruction instruction,
                                            bool with_long_nop) {
  std::optional<SitePattern> found;
  for (const SitePattern& one : patterns)
    if (one.ours && one.machine == machine && one.use == use && one.instruction == instruction &&
        (!found || one.long_nop == with_long_nop))
      found = one;
  return found;
}

std::optional<SitePattern> pattern_at(std::span<const std::byte> code, std::size_t site,
                                      Machine machine, Use use) {
  std::optional<SitePattern> found;
  for (const SitePattern& one : patterns)
    if (one.machine == machine && one.use == use && (!found || one.length > found->length) &&
        is_at(one, code, site))
      found = one;
  return found;
}

}  // namespace vitrine::dof
