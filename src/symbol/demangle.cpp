#include "symbol/demangle.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>

#include "base/limits.hpp"
#include "symbol/rust_names.hpp"
#include "worker/confinement.hpp"

namespace vitrine::symbol {
namespace {

constexpr std::size_t longest = 1024;
constexpr std::size_t most_references = 20;

/// How often a name refers back to one of its own parts (S_, S0_, T_, T0_, …). Each may double what
/// comes out, so that a few hundred bytes of a hostile file could become gigabytes.
std::size_t references(std::string_view name) {
  std::size_t count = 0;
  for (std::size_t i = 0; i + 1 < name.size(); ++i) {
    if (name[i] != 'S' && name[i] != 'T') continue;
    const std::size_t end = name.find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", i + 1);
    if (end != name.npos && name[end] == '_') ++count;
  }
  return count;
}

std::optional<std::string> cxx_name(const std::string& symbol) {
  if (!symbol.starts_with("_Z") || symbol.size() > longest || references(symbol) > most_references)
    return std::nullopt;
  struct Free {
    void operator()(char* text) const { std::free(text); }
  };
  int status = 0;
  const std::unique_ptr<char, Free> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status));
  if (status != 0 || !text) return std::nullopt;
  const std::string_view name = text.get();
  if (name.size() > limits::demangled_bytes) return std::nullopt;
  return std::string(name);
}

}  // namespace

std::string demangled_anywhere(const std::string& symbol) {
  auto name = rust_name(symbol);
  if (!name) name = legacy_rust_name(symbol);
  if (!name) name = cxx_name(symbol);
  return name ? std::move(*name) : symbol;
}

std::string demangled(const std::string& symbol) {
  return worker::is_worker() ? demangled_anywhere(symbol) : symbol;
}

}  // namespace vitrine::symbol
