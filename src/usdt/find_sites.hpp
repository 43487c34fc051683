// Finds the calls of declared probes in an object, by their relocations
// (docs/formats/object-step.md, "Calls and functions").
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "dof/site_pattern.hpp"
#include "usdt/declared_probes.hpp"
#include "usdt/header.hpp"
#include "usdt/object_file.hpp"

namespace vitrine::usdt {

struct SiteRules {
  /// How the header's FOO_BAR_ENABLED() asks, where it does so by a call. The semaphore is no call:
  /// return_value then.
  EnabledProtocol enabled = EnabledProtocol::return_value;
  bool long_nop = false;
  bool weak_aliases = false;  ///< LinkOptions::lld
};

/// One direct call of a probe.
struct CallSite {
  ProbeUse use;
  std::uint32_t section = 0;  ///< that the code is in
  std::uint64_t start = 0;    ///< of the instruction, in the section
  dof::SitePattern pattern;   ///< what stands there, or is to stand there
  bool patched = false;       ///< it stands there already
  std::size_t type_at = 0;    ///< where in the file the relocation's type is
};

struct FoundSites {
  std::vector<CallSite> sites;          ///< by section and start
  std::vector<ProbeUse> left_to_stubs;  ///< other uses: addresses taken, calls by the GOT, …
  std::vector<std::string> strangers;   ///< symbols of probes that are not declared here
};

/// Errors: malformed (a relocation of a probe that makes no sense; a patched call that was changed
/// since), usage (a probe that its declared provider does not have).
Result<FoundSites> find_sites(const ObjectFile& object, const DeclaredProbes& declared,
                              const SiteRules& rules);

}  // namespace vitrine::usdt
