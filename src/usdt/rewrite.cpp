#include "usdt/rewrite.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <tuple>

#include "usdt/machine.hpp"
#include "usdt/object_writer.hpp"
#include "usdt/symbols.hpp"

namespace vitrine::usdt {
namespace {

/// Functions that have sites, each once, and which of them each site is in.
struct SiteFunctions {
  std::vector<Function> functions;
  std::vector<std::size_t> of_site;
};

SiteFunctions functions_of(const ObjectFile& object, std::span<const CallSite> sites) {
  std::vector<Place> places;
  places.reserve(sites.size());
  for (const CallSite& site : sites) places.push_back({site.section, site.start});
  SiteFunctions found;
  std::map<Function, std::size_t> known;
  for (Function& function : containing_functions(object, places)) {
    const auto [at, is_new] = known.try_emplace(function, found.functions.size());
    found.of_site.push_back(at->second);
    if (is_new) found.functions.push_back(std::move(function));
  }
  return found;
}

Result<std::vector<FunctionSites>> gather(std::span<const CallSite> sites,
                                          const SiteFunctions& where,
                                          std::span<const std::string> aliases) {
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::size_t>, FunctionSites> gathered;
  for (std::size_t i = 0; i < sites.size(); ++i) {
    const CallSite& site = sites[i];
    const std::size_t in = where.of_site[i];
    const Function& function = where.functions[in];
    const std::uint64_t offset = site.start + site.pattern.site - function.start.offset;
    if (offset > std::numeric_limits<std::uint32_t>::max())
      return fail(ErrorCode::limit, fmt::format("a probe call is {} bytes after the start of {}",
                                                offset, function.name));
    FunctionSites& one = gathered[{site.use.provider, site.use.probe, in}];
    if (one.alias.empty())
      one = {site.use.provider, site.use.probe, function.name, aliases[in], {}, {}};
    (site.use.enabled ? one.enabled_offsets : one.offsets)
        .push_back(static_cast<std::uint32_t>(offset));
  }
  std::vector<FunctionSites> all;
  all.reserve(gathered.size());
  for (auto& [key, one] : gathered) all.push_back(std::move(one));
  return all;
}

/// The symbol stays in the relocation: without it, a linker that folds identical functions would
/// fold those of different probes (docs/formats/object-step.md, "Calls and functions").
void neutralise(std::span<std::byte> bytes, const ObjectFile& object, const CallSite& site) {
  const std::size_t at =
      static_cast<std::size_t>(object.sections()[site.section].offset + site.start);
  std::memcpy(&bytes[at], site.pattern.bytes.data(), site.pattern.length);
  std::memset(&bytes[site.type_at], 0, object.machine().wide ? sizeof(Elf32_Word) : 1);
}

void look_for_lto(const ObjectFile& object, RewrittenObject& result) {
  bool lto = false;
  for (std::uint32_t i = 1; i < object.sections().size() && !lto; ++i)
    lto = object.section_name(i).starts_with(".gnu.lto_") || object.section_name(i) == ".llvm.lto";
  if (!lto) return;
  result.only_lto = std::ranges::any_of(
      object.symbols(), [](const Symbol& symbol) { return symbol.name == "__gnu_lto_slim"; });
  result.fat_lto = !result.only_lto;
}

}  // namespace

Result<RewrittenObject> rewrite(std::span<const std::byte> bytes, const DeclaredProbes& declared,
                                const SiteRules& rules, std::string_view salt) {
  RewrittenObject result;
  if (is_bitcode(bytes)) {
    result.machine = bitcode_machine(bytes);
    result.only_lto = true;
    return result;
  }
  const auto object = TRY(ObjectFile::read(bytes));
  auto found = TRY(find_sites(object, declared, rules));
  result.machine = &object.machine();
  result.left_to_stubs = std::move(found.left_to_stubs);
  result.undeclared = std::move(found.undeclared);
  look_for_lto(object, result);
  const auto features = TRY(feature_bits(object));
  if (!result.only_lto) result.features = features;
  if (found.sites.empty()) return result;

  const SiteFunctions where = functions_of(object, found.sites);
  const unsigned char binding = rules.weak_aliases ? STB_WEAK : STB_GLOBAL;
  const Aliases aliases = name_functions(object, where.functions, hash(salt, hash(bytes)), binding);
  result.functions = TRY(gather(found.sites, where, aliases.names));

  std::vector<std::byte> out(bytes.begin(), bytes.end());
  bool changed = !aliases.added.empty();
  for (const CallSite& site : found.sites) {
    if (site.use.enabled)
      (site.pattern.use == dof::Use::fire ? result.pointer_protocol : result.register_protocol) =
          true;
    if (site.patched) continue;
    neutralise(out, object, site);
    changed = true;
  }
  if (!changed) return result;
  std::vector<NewSymbol> symbols;
  for (const std::size_t i : aliases.added)
    symbols.push_back({aliases.names[i], where.functions[i].start, binding});
  TRY(append_symbols(out, object, symbols));
  result.bytes = std::move(out);
  return result;
}

}  // namespace vitrine::usdt
