// Which symbols of an object are the probes of a definition: by their exact names
// (docs/formats/object-step.md, "Names").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "usdt/definition.hpp"

namespace vitrine::usdt {

/// A declared probe, fired or asked after.
struct ProbeUse {
  std::uint32_t provider = 0;  ///< index in Definition::providers
  std::uint32_t probe = 0;     ///< index in Provider::probes
  bool enabled = false;        ///< __dtraceenabled_…

  auto operator<=>(const ProbeUse&) const = default;
};

class DeclaredProbes {
 public:
  explicit DeclaredProbes(const Definition& definition);

  /// Null: no declared probe has this symbol.
  [[nodiscard]] const ProbeUse* find(std::string_view symbol) const;

  /// Whether there is a probe of these indices.
  [[nodiscard]] bool has(std::uint32_t provider, std::uint32_t probe) const;

  /// The declared provider whose probe the symbol seems to be, though find() knows it not; empty:
  /// another provider's, or no probe's at all.
  [[nodiscard]] std::string_view provider_without(std::string_view symbol) const;

 private:
  std::unordered_map<std::string, ProbeUse> uses_;
  std::vector<std::string> providers_;
  std::vector<std::size_t> probes_;  ///< of each provider, how many
};

/// Whether this is a probe's symbol, of whichever provider.
bool is_probe_symbol(std::string_view symbol);

}  // namespace vitrine::usdt
