// The symbols that arguments of a file's probes name, looked up in it and, where it has been
// stripped, in its separate debug file.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "observe/probes.hpp"
#include "probe/argument.hpp"

namespace vitrine::observe {

/// Nothing is read before an argument names a symbol; then a worker is asked for all those of the
/// file at once. The file must outlive it.
class ProbeSymbols {
 public:
  explicit ProbeSymbols(const ProbeFile& file) : file_(file) {}

  using Compiled = tl::expected<vitrine_operand, probe::ArgumentError>;

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

}  // namespace vitrine::observe
