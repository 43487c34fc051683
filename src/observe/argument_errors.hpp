// Why arguments of probes cannot be decoded.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "observe/probes.hpp"
#include "probe/argument.hpp"

namespace vitrine::observe {

/// Asks one file. Its symbols are read when an argument first needs one.
class ArgumentErrors {
 public:
  /// `file` has probes, and outlives this.
  explicit ArgumentErrors(const ProbeFile& file);
  ~ArgumentErrors();

  /// One entry an argument of the site, nullopt for one that can be decoded; empty when all can.
  std::vector<std::optional<probe::ArgumentError>> of(const probe::Site& site);

 private:
  struct Symbols;
  const ProbeFile& file_;
  std::unique_ptr<Symbols> symbols_;  ///< null: the file's headers are not readable any more
};

}  // namespace vitrine::observe
