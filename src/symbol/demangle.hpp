// Names of functions as programmers write them.
//
// A symbol table may be hostile: a name of some hundred bytes can unfold to gigabytes, and a
// demangler is a parser with faults of its own. So names are demangled in a worker process alone,
// and a name that becomes longer than limits::demangled_bytes stays as it is.
#pragma once

#include <string>

namespace vitrine::symbol {

/// A C++ or Rust symbol demangled; any other name, and one that becomes too long, as it is.
/// In a process that is no worker: any name as it is, unread.
std::string demangled(const std::string& symbol);

/// The same in any process. For tests and fuzzers: tests/layering/demangling.py finds other callers.
std::string demangled_anywhere(const std::string& symbol);

}  // namespace vitrine::symbol
