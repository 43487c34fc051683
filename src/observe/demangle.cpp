#include "observe/demangle.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string_view>

namespace vitrine::observe {
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

}  // namespace

std::string demangled(const std::string& symbol) {
  if (!symbol.starts_with("_Z") || symbol.size() > longest || references(symbol) > most_references)
    return symbol;
  struct Free {
    void operator()(char* text) const { std::free(text); }
  };
  int status = 0;
  const std::unique_ptr<char, Free> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status));
  return status == 0 && text ? std::string(text.get()) : symbol;
}

}  // namespace vitrine::observe
