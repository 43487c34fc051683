// Names of functions as programmers write them.
//
// A symbol table may be hostile: a name of some hundred bytes can unfold to gigabytes, and a
// demangler is a parser with faults of its own. So names are demangled in a worker process alone,
// and a name that becomes longer than limits::demangled_bytes stays as it is.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace vitrine::symbol {

/// Whether a name begins as mangled ones do: any other is as it was written.
inline bool is_mangled(std::string_view name) {
  return name.starts_with("_Z") || name.starts_with("_R") || name.starts_with("__Z");
}

/// A C++ or Rust symbol demangled; any other name, and one that becomes too long, as it is.
/// In a process that is no worker: any name as it is, unread.
std::string demangled(const std::string& symbol);

/// The same in any process. For tests and fuzzers: tests/layering/demangling.py finds other callers.
std::string demangled_anywhere(const std::string& symbol);

// Names of Rust functions, out of both manglings that rustc has had.
//
// vitrine's own instead of libiberty's, which counts the lifetimes of a binder to the end, and prints nothing
// meanwhile where it skips a path: a name of 26 bytes takes it 37 seconds, and each byte more
// 62 times that (bench/names_bench.cpp). There is no way to stop it but to end the process.

/// Of the present mangling, "_R…" (Rust RFC 2603); nothing: it is not one, or beyond all measure.
/// Crates are printed without their hashes.
std::optional<std::string> rust_name(std::string_view symbol);

/// Of the old one: what looks like C++ ("_ZN…E") but ends in a hash, 17h and 16 hexadecimal digits,
/// which is left out; nothing: it is not one.
std::optional<std::string> legacy_rust_name(std::string_view symbol);

}  // namespace vitrine::symbol
