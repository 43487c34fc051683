// Why arguments of probes cannot be decoded.
#pragma once

#include <optional>
#include <vector>

#include "observe/probe_symbols.hpp"

namespace vitrine::observe {

/// Asks one file. Its symbols are read when an argument first needs one.
class ArgumentErrors {
 public:
  /// `file` has probes, and outlives this.
  explicit ArgumentErrors(const ProbeFile& file) : symbols_(file) {}

  /// One entry an argument of the site, nullopt for one that can be decoded; empty when all can.
  std::vector<std::optional<probe::ArgumentError>> of(const probe::Site& site);

 private:
  ProbeSymbols symbols_;
};

}  // namespace vitrine::observe
