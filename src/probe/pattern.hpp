// Pattern: which probes a user means.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "probe/probe.hpp"

namespace vitrine::probe {

/// "provider:name", each a glob of the shell (`*`, `?`, `[…]`). Without a colon: a name, of any
/// provider.
class Pattern {
 public:
  explicit Pattern(std::string_view text);

  [[nodiscard]] bool matches(const Probe& probe) const;

 private:
  std::string provider_;
  std::string name_;
};

/// Whether any of the patterns matches, or there are none.
bool selected(const Probe& probe, std::span<const Pattern> patterns);

}  // namespace vitrine::probe
