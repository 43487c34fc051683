// Names of Rust functions, out of both manglings that rustc has had.
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
