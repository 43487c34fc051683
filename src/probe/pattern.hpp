// Pattern: which probes a user means.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "probe/probe.hpp"

namespace vitrine::probe {

/// "provider:name", each a glob of the shell (`*`, `?`, `[…]`). Without a colon: a name, of any
/// provider. The provider of a DOF is also called by its instance in one process, as DTrace does:
/// "shop4242".
class Pattern {
 public:
  explicit Pattern(std::string_view text);

  /// `process`: whose probe it is, where it is one process's; 0: any.
  [[nodiscard]] bool matches(const Probe& probe, int process = 0) const;

 private:
  std::string provider_;
  std::string name_;
};

/// Whether any of the patterns matches, or there are none.
bool selected(const Probe& probe, std::span<const Pattern> patterns, int process = 0);

/// The name of a DOF's provider in a process: "shop4242".
std::string instance_name(const Probe& probe, int process);

}  // namespace vitrine::probe
