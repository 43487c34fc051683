// A file with DOFs, and the probes made of them: an ELF file.
#include "probe/dof_probes.hpp"

#include "base/limits.hpp"
#include "dof/dof.hpp"
#include "input.hpp"
#include "probe/argument.hpp"

using namespace vitrine;

namespace {

bool has_a_pattern(Memory& file, const probe::Site& site) {
  std::array<std::byte, 32> code{};
  const std::uint64_t before = std::min<std::uint64_t>(*site.file_offset, 8);
  const std::size_t got = file.read_some(*site.file_offset - before, code);
  for (const dof::Use use : {dof::Use::fire, dof::Use::enabled_register})
    for (std::size_t at = before; at < before + 4; ++at)  // an operand is before its site
      if (dof::pattern_at(std::span(code).first(got), at, Machine::x86_64, use)) return true;
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::RegionMemory file(0, fuzz::bytes(data, size));
  const auto elf = elf::read_file(file);
  if (!elf) return 0;
  constexpr auto machine = Machine::x86_64;
  const probe::FileLayout layout{elf->type, elf->segments, size, {}};
  const auto made = probe::make_dof_probes(probe::find_dof(file, *elf), file, layout, machine);
  std::size_t sites = 0;
  for (const probe::Probe& one : made.probes) {
    for (const auto* list : {&one.sites, &one.enabled_sites})
      for (const probe::Site& site : *list) {
        ++sites;
        fuzz::require(site.file_offset.has_value() == site.verified || !site.problems.empty());
        fuzz::require(!site.file_offset || has_a_pattern(file, site));
        for (const std::string& argument : site.arguments)
          if (const auto operand =
                  probe::compile_argument(argument, machine, site.address, nullptr);
              !operand)
            fuzz::require(operand.error().kind == probe::ArgumentError::Kind::unsupported);
      }
  }
  fuzz::require(sites <= limits::probe_notes);
  return 0;
}
