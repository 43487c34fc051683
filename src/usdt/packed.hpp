// Structures of this layer as base/pack.hpp has them.
#pragma once

#include "base/pack.hpp"
#include "usdt/rewrite.hpp"

namespace vitrine::usdt {

template <pack::Of<ProbeUse> T>
auto fields(T& use) {
  auto& [provider, probe, enabled] = use;
  return std::tie(provider, probe, enabled);
}

template <pack::Of<FunctionSites> T>
auto fields(T& sites) {
  auto& [provider, probe, function, alias, offsets, enabled_offsets] = sites;
  return std::tie(provider, probe, function, alias, offsets, enabled_offsets);
}

}  // namespace vitrine::usdt
