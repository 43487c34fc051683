#include "usdt/declared_probes.hpp"

#include "usdt/names.hpp"

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

}  // namespace vitrine::usdt
