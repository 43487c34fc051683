// Names of functions as programmers write them.
#pragma once

#include <string>

namespace vitrine::symbol {

/// A C++ or Rust symbol demangled; any other name, and one that would unfold beyond all
/// measure, as it is.
std::string demangled(const std::string& symbol);

}  // namespace vitrine::symbol
