// Names of Rust functions, out of both manglings that rustc has had.
//
// Ours beside libiberty's, which counts the lifetimes of a binder to the end, and prints nothing
// meanwhile where it skips a path: a name of 26 bytes takes it 37 seconds, and each byte more
// 62 times that (bench/names_bench.cpp). There is no way to stop it but to end the process.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace vitrine::symbol {

/// Of the present mangling, "_R…" (Rust RFC 2603); nothing: it is not one, or beyond all measure.
/// Crates are printed without their hashes.
std::optional<std::string> rust_name(std::string_view symbol);

/// Of the old one: what looks like C++ ("_ZN…E") but ends in a hash, 17h and 16 hexadecimal digits,
/// which is left out; nothing: it is not one.
std::optional<std::string> legacy_rust_name(std::string_view symbol);

}  // namespace vitrine::symbol
