#include "dof/dof.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

namespace vitrine::dof {
namespace {

std::string name_of(std::span<const std::string_view> names, std::uint8_t number) {
  return number < names.size() ? std::string(names[number]) : std::to_string(number);
}

}  // namespace

std::string name(const Stability& stability) {
  return fmt::format("{}/{}/{}", name_of(stability_names, stability.name),
                     name_of(stability_names, stability.data),
                     name_of(dependency_class_names, stability.dependency_class));
}

namespace {

std::optional<std::uint64_t> unless_left_out(Model model, std::uint64_t address,
                                             Placement placement) {
  const std::uint64_t base = wrapped(model, address);
  if (base == 0 || base == wrapped(model, placement.header)) return std::nullopt;
  return base;
}

}  // namespace

std::uint64_t wrapped(Model model, std::uint64_t address) {
  return model == Model::ilp32 ? address & UINT32_MAX : address;
}

std::optional<std::uint64_t> function_address(const Object& object, const Record& record,
                                              Placement placement) {
  switch (record.relocation) {
    case Relocation::own_address:
      if (wrapped(object.model, record.word) == 0) return std::nullopt;  // the word is no function
      return unless_left_out(object.model, record.word + placement.header + record.word_offset,
                             placement);
    case Relocation::load_base:
      if (wrapped(object.model, record.word) == 0) return std::nullopt;
      return unless_left_out(object.model, record.word + placement.load_base, placement);
    case Relocation::none:
      break;
  }
  return unless_left_out(object.model, record.word, placement);
}

std::uint64_t site_address(Model model, std::uint64_t function, std::uint32_t offset) {
  return wrapped(model, function + offset);
}

std::optional<std::uint64_t> semaphore_address(const Object& object, const Semaphore& semaphore,
                                               Placement placement) {
  return unless_left_out(object.model, semaphore.word + placement.header + semaphore.word_offset,
                         placement);
}

namespace {

using enum Machine;
using enum Use;
using enum Instruction;

constexpr bool written = true, foreign = false;
constexpr bool short_nops = false, long_nop = true;

// A site is on a nop: the kernel emulates that; on anything else it single-steps, 15 times slower.
// aarch64's is-enabled check has no room for `mov w0, #0` and a nop after it, for a tracer to attach to:
// its calls are left to the stub. Nops and then a `ret` would not be distinguished from a patched
// call before a `ret` of the caller's own, so that x86's stub is `nop; ret`.
constexpr SitePattern patterns[] = {
    {x86_64, fire, call, written, short_nops, 0, 5, {0x90, 0x90, 0x90, 0x90, 0x90}},
    {x86_64, fire, call, written, long_nop, 0, 5, {0x0f, 0x1f, 0x44, 0x00, 0x00}},
    {x86_64, fire, jump, written, short_nops, 0, 5, {0x90, 0xc3, 0x90, 0x90, 0x90}},
    {x86_64, fire, stub, written, short_nops, 0, 2, {0x90, 0xc3}},
    {x86_64, enabled_register, call, written, short_nops, 3, 5, {0x6a, 0x00, 0x58, 0x90, 0x90}, 1},
    {x86_64, enabled_register, jump, written, short_nops, 3, 5, {0x6a, 0x00, 0x58, 0x90, 0xc3}, 1},
    {x86_64, enabled_register, stub, written, short_nops, 3, 5, {0x6a, 0x00, 0x58, 0x90, 0xc3}, 1},

    {i386, fire, call, written, short_nops, 0, 5, {0x90, 0x90, 0x90, 0x90, 0x90}},
    {i386, fire, call, written, long_nop, 0, 5, {0x0f, 0x1f, 0x44, 0x00, 0x00}},
    {i386, fire, jump, written, short_nops, 0, 5, {0x90, 0xc3, 0x90, 0x90, 0x90}},
    {i386, fire, stub, written, short_nops, 0, 2, {0x90, 0xc3}},
    {i386, enabled_register, call, written, short_nops, 3, 5, {0x6a, 0x00, 0x58, 0x90, 0x90}, 1},
    {i386, enabled_register, jump, written, short_nops, 3, 5, {0x6a, 0x00, 0x58, 0x90, 0xc3}, 1},
    {i386, enabled_register, stub, written, short_nops, 3, 5, {0x6a, 0x00, 0x58, 0x90, 0xc3}, 1},

    // nop; ret; mov w0, #0
    {aarch64, fire, call, written, short_nops, 0, 4, {0x1f, 0x20, 0x03, 0xd5}},
    {aarch64, fire, jump, written, short_nops, 0, 4, {0xc0, 0x03, 0x5f, 0xd6}},
    {aarch64,
     fire,
     stub,
     written,
     short_nops,
     0,
     8,
     {0x1f, 0x20, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6}},
    {aarch64,
     enabled_register,
     stub,
     written,
     short_nops,
     4,
     12,
     {0x00, 0x00, 0x80, 0x52, 0x1f, 0x20, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6}},

    // dtrace -G of illumos, FreeBSD and Oracle.
    {x86_64, fire, jump, foreign, short_nops, 0, 5, {0xc3, 0x90, 0x90, 0x90, 0x90}},
    {x86_64, enabled_register, call, foreign, short_nops, 3, 5, {0x48, 0x33, 0xc0, 0x90, 0x90}},
    {x86_64, enabled_register, jump, foreign, short_nops, 3, 5, {0x48, 0x33, 0xc0, 0xc3, 0x90}},
    {i386, fire, jump, foreign, short_nops, 0, 5, {0xc3, 0x90, 0x90, 0x90, 0x90}},
    {i386, enabled_register, call, foreign, short_nops, 2, 5, {0x33, 0xc0, 0x90, 0x90, 0x90}},
    {i386, enabled_register, jump, foreign, short_nops, 2, 5, {0x33, 0xc0, 0xc3, 0x90, 0x90}},
    // The same with the site on a nop.
    {x86_64, enabled_register, call, foreign, short_nops, 2, 5, {0x31, 0xc0, 0x90, 0x90, 0x90}},
    {x86_64, enabled_register, jump, foreign, short_nops, 2, 5, {0x31, 0xc0, 0x90, 0xc3, 0x90}},
    {i386, enabled_register, jump, foreign, short_nops, 2, 5, {0x31, 0xc0, 0x90, 0xc3, 0x90}},
    // FreeBSD leaves in w0 what was there: the check has a random result.
    {aarch64, enabled_register, call, foreign, short_nops, 0, 4, {0x00, 0x00, 0x80, 0x52}},
    {aarch64, enabled_register, call, foreign, short_nops, 0, 4, {0x1f, 0x20, 0x03, 0xd5}},
    {aarch64, enabled_register, jump, foreign, short_nops, 0, 4, {0xc0, 0x03, 0x5f, 0xd6}},
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
    if (one.written && one.machine == machine && one.use == use && one.instruction == instruction &&
        (!found || one.long_nop == with_long_nop))
      found = one;
  return found;
}

std::vector<std::byte> dropped_code(Machine machine) {
  static constexpr char mark[] = {'d', 'r', 'o', 'p', 'p', 'e', 'd', '\0'};
  std::vector<std::byte> code;
  const auto pattern = pattern_to_write(machine, Use::fire, Instruction::stub);
  if (!pattern) return code;
  const auto instructions = std::as_bytes(pattern->code().subspan(pattern->site));
  code.assign(instructions.begin(), instructions.end());
  code.resize((code.size() + 3) / 4 * 4);
  const auto marked = std::as_bytes(std::span(mark));
  code.insert(code.end(), marked.begin(), marked.end());
  return code;
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
