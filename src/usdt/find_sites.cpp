#include "usdt/find_sites.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "usdt/definition.hpp"
#include "usdt/symbols.hpp"

namespace vitrine::usdt {
namespace {

constexpr std::string_view fire_prefix = "__dtrace_";
constexpr std::string_view enabled_prefix = "__dtraceenabled_";

std::string_view after_prefix(std::string_view symbol) {
  for (const auto prefix : {fire_prefix, enabled_prefix})
    if (symbol.starts_with(prefix)) return symbol.substr(prefix.size());
  return {};
}

}  // namespace

DeclaredProbes::DeclaredProbes(const Definition& definition) {
  for (std::uint32_t i = 0; i < definition.providers.size(); ++i) {
    const Provider& provider = definition.providers[i];
    providers_.push_back(provider.name);
    probes_.push_back(provider.probes.size());
    for (std::uint32_t j = 0; j < provider.probes.size(); ++j) {
      uses_.emplace(probe_symbol(provider, provider.probes[j]), ProbeUse{i, j, false});
      uses_.emplace(enabled_symbol(provider, provider.probes[j]), ProbeUse{i, j, true});
    }
  }
}

const ProbeUse* DeclaredProbes::find(std::string_view symbol) const {
  if (!is_probe_symbol(symbol)) return nullptr;
  const auto found = uses_.find(std::string(symbol));
  return found == uses_.end() ? nullptr : &found->second;
}

bool DeclaredProbes::has(std::uint32_t provider, std::uint32_t probe) const {
  return provider < probes_.size() && probe < probes_[provider];
}

std::string_view DeclaredProbes::provider_without(std::string_view symbol) const {
  const auto rest = after_prefix(symbol);
  for (const std::string& provider : providers_) {
    if (!rest.starts_with(provider) || !rest.substr(provider.size()).starts_with("___")) continue;
    // "foo____x" is the probe x of a provider `foo_` rather than _x of `foo`.
    if (!rest.substr(provider.size() + 3).starts_with('_')) return provider;
  }
  return {};
}

bool is_probe_symbol(std::string_view symbol) {
  return !after_prefix(symbol).empty();
}

namespace {

std::span<const std::uint8_t> as_bytes_of(std::span<const std::byte> code) {
  return {reinterpret_cast<const std::uint8_t*>(code.data()), code.size()};
}

bool is_at(const dof::SitePattern& pattern, std::span<const std::byte> code, std::size_t start) {
  if (start > code.size() || code.size() - start < pattern.length) return false;
  const auto there = as_bytes_of(code.subspan(start, pattern.length));
  return std::ranges::equal(there, pattern.code());
}

class Finder {
 public:
  Finder(const ObjectFile& object, const DeclaredProbes& declared, const SiteRules& rules)
      : object_(object), declared_(declared), rules_(rules) {}

  Result<FoundSites> find() {
    if (!look_up_symbols()) return std::move(found_);
    for (const RelocationTable& table : object_.relocations()) {
      const elf::Section& target = object_.sections()[table.target];
      if ((target.flags & SHF_ALLOC) == 0) continue;  // what debuggers read
      for (std::size_t i = 0; i < table.count; ++i) {
        const Relocation one = object_.relocation(table, i);
        if (!is_probe_[one.symbol]) continue;
        TRY(take(table.target, one));
      }
    }
    return sorted();
  }

 private:
  bool look_up_symbols() {
    is_probe_.resize(object_.symbols().size());
    bool any = false;
    for (std::size_t i = 0; i < is_probe_.size(); ++i) {
      const Symbol& symbol = object_.symbols()[i];
      is_probe_[i] = symbol.binding != STB_LOCAL && is_probe_symbol(symbol.name);
      any = any || is_probe_[i];
    }
    return any;
  }

  Result<void> take(std::uint32_t section, const Relocation& relocation) {
    const std::string_view name = object_.symbols()[relocation.symbol].name;
    const ProbeUse* use = declared_.find(name);
    if (use == nullptr) return take_undeclared(section, relocation, name);
    const bool code = (object_.sections()[section].flags & SHF_EXECINSTR) != 0;
    if (does_nothing(object_.machine(), relocation.type))
      return code ? take_patched(section, relocation, *use) : Result<void>{};
    const auto branch = direct_branch(object_.machine(), object_.content(section),
                                      relocation.offset, relocation.type, relocation.addend);
    const auto pattern =
        code && branch ? pattern_for(*use, branch->instruction) : std::optional<dof::SitePattern>{};
    if (pattern) {
      found_.sites.push_back({*use, section, branch->start, *pattern, false, relocation.type_at});
      return {};
    }
    if (!takes_address(object_.machine(), relocation.type))
      return fail(
          ErrorCode::malformed,
          fmt::format("{}: relocation of type {} at {} against {}, a function",
                      object_.describe(section), relocation.type, hex(relocation.offset), name));
    found_.left_to_stubs.push_back(*use);
    return {};
  }

  Result<void> take_undeclared(std::uint32_t section, const Relocation& relocation,
                               std::string_view name) {
    const std::string_view provider = declared_.provider_without(name);
    if (provider.empty()) {
      if (undeclared_.insert(name).second) found_.undeclared.emplace_back(name);
      return {};
    }
    const Place place{section, relocation.offset};
    return fail(
        ErrorCode::usage,
        fmt::format("{}: {} calls {}, but the provider {} declares no such probe",
                    object_.describe(section),
                    containing_functions(object_, {&place, 1}).front().name, name, provider),
        "declare the probe, or recompile the object with the header of this definition");
  }

  Result<void> take_patched(std::uint32_t section, const Relocation& relocation,
                            const ProbeUse& use) {
    const auto code = object_.content(section);
    const auto start = patched_start(object_.machine(), relocation.offset);
    if (start) {
      for (const dof::Use kind : kinds(use)) {
        for (const dof::SitePattern& pattern : dof::site_patterns()) {
          if (pattern.machine != object_.machine().machine || pattern.use != kind ||
              pattern.instruction == dof::Instruction::stub || !is_at(pattern, code, *start))
            continue;
          found_.sites.push_back({use, section, *start, pattern, true, relocation.type_at});
          return {};
        }
      }
    }
    return fail(
        ErrorCode::malformed,
        fmt::format("{}: the call of {} at {} was processed before, but other code is there now",
                    object_.describe(section), object_.symbols()[relocation.symbol].name,
                    hex(start.value_or(0))),
        "the object was modified after it was processed: recompile it");
  }

  /// An is-enabled check may stand there in the protocol of an earlier run.
  [[nodiscard]] static std::vector<dof::Use> kinds(const ProbeUse& use) {
    if (!use.enabled) return {dof::Use::fire};
    return {dof::Use::enabled_register, dof::Use::fire};
  }

  [[nodiscard]] std::optional<dof::SitePattern> pattern_for(const ProbeUse& use,
                                                            dof::Instruction instruction) const {
    const bool asks = use.enabled && rules_.enabled != EnabledProtocol::pointer;
    return dof::pattern_to_write(object_.machine().machine,
                                 asks ? dof::Use::enabled_register : dof::Use::fire, instruction,
                                 rules_.long_nop);
  }

  Result<FoundSites> sorted() {
    auto& sites = found_.sites;
    std::ranges::sort(sites, {}, [](const CallSite& s) { return std::pair(s.section, s.start); });
    for (std::size_t i = 1; i < sites.size(); ++i) {
      const CallSite &one = sites[i - 1], &next = sites[i];
      if (one.section == next.section && next.start - one.start < one.pattern.length)
        return fail(ErrorCode::malformed,
                    fmt::format("{}: two probe calls overlap at {}", object_.describe(one.section),
                                hex(next.start)));
    }
    return std::move(found_);
  }

  const ObjectFile& object_;
  const DeclaredProbes& declared_;
  const SiteRules& rules_;
  std::vector<bool> is_probe_;  ///< one a symbol
  std::set<std::string_view> undeclared_;
  FoundSites found_;
};

}  // namespace

Result<FoundSites> find_sites(const ObjectFile& object, const DeclaredProbes& declared,
                              const SiteRules& rules) {
  return Finder(object, declared, rules).find();
}

}  // namespace vitrine::usdt
