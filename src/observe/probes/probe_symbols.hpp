// Symbols that arguments of probes name, and why an argument cannot be decoded.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "observe/probes/probes.hpp"
#include "probe/argument.hpp"

namespace vitrine::observe {

// The symbols that arguments of a file's probes name, looked up in it and, where it has been
// stripped, in its separate debug file.

/// Nothing is read before an argument names a symbol; then a worker is asked for all those of the
/// file at once. The file must outlive it.
class ProbeSymbols {
 public:
  explicit ProbeSymbols(const ProbeFile& file) : file_(file) {}

  using Compiled = tl::expected<vitrine_operand, probe::ArgumentError>;

  [[nodiscard]] Machine machine() const { return file_.machine; }

  /// probe::compile_argument() of an argument of one of the file's sites.
  Compiled compile(const std::string& argument, const probe::Site& site);

 private:
  using Key = std::pair<Address, std::string>;  // of the site; the argument

  void ask();

  const ProbeFile& file_;
  bool asked_ = false;
  std::string problem_;  // why nothing could be asked for; empty: it could
  std::map<Key, Compiled> with_symbols_;
};

// Why arguments of probes cannot be decoded.

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
