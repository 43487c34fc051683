// Which symbols of an object are the probes of a definition: by their exact names
// (docs/formats/object-step.md, "Names").
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"
#include "dof/dof.hpp"
#include "usdt/definition.hpp"
#include "usdt/header.hpp"
#include "usdt/object_file.hpp"

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

// Finds the calls of declared probes in an object, by their relocations
// (docs/formats/object-step.md, "Calls and functions").

struct SiteRules {
  /// How the header's FOO_BAR_ENABLED() asks, where it does so by a call. The semaphore is no call:
  /// return_value then.
  EnabledProtocol enabled = EnabledProtocol::return_value;
  bool long_nop = false;
  bool weak_aliases = false;  ///< LinkOptions::lld
  bool notes = true;          ///< LinkOptions::sdt
};

/// One direct call of a probe.
struct CallSite {
  ProbeUse use;
  std::uint32_t section = 0;  ///< that the code is in
  std::uint64_t start = 0;    ///< of the instruction, in the section
  dof::SitePattern pattern;   ///< what is there, or will be there
  bool patched = false;       ///< it is there already
  std::size_t type_at = 0;    ///< where in the file the relocation's type is
};

struct FoundSites {
  std::vector<CallSite> sites;          ///< by section and start
  std::vector<ProbeUse> left_to_stubs;  ///< other uses: addresses taken, calls by the GOT, …
  std::vector<std::string> undeclared;  ///< symbols of probes that are not declared here
};

/// Errors: malformed (a relocation of a probe that is invalid; a patched call that was changed
/// since), usage (a probe that its declared provider does not have).
Result<FoundSites> find_sites(const ObjectFile& object, const DeclaredProbes& declared,
                              const SiteRules& rules);

}  // namespace vitrine::usdt
