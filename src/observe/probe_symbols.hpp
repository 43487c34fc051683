// The symbols that arguments of a file's probes name, looked up in it and, where it has been
// stripped, in its separate debug file.
#pragma once

#include <memory>

#include "observe/probes.hpp"
#include "probe/file_symbols.hpp"
#include "symbol/debug_file.hpp"

namespace vitrine::observe {

/// Reads nothing before the first symbol is asked for. The file must outlive it.
class ProbeSymbols {
 public:
  explicit ProbeSymbols(const ProbeFile& file) : file_(file) {}

  /// probe::compile_argument() of a site's argument.
  tl::expected<vitrine_operand, probe::ArgumentError> compile(const std::string& argument,
                                                              const probe::Site& site);

 private:
  bool open();
  bool open_debug_file();

  const ProbeFile& file_;
  bool tried_ = false, tried_debug_ = false;
  elf::File elf_;
  std::unique_ptr<symbol::DebugFile> debug_;
  std::unique_ptr<probe::FileSymbols> symbols_;
};

}  // namespace vitrine::observe
