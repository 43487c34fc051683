#include "usdt/names.hpp"

namespace vitrine::usdt {
namespace {

std::string symbol(const char* prefix, const Provider& provider, const Probe& probe) {
  std::string out = prefix + provider.name + "___";
  for (const char c : probe.name) {
    if (c == '-') {
      out += "__";
    } else {
      out += c;
    }
  }
  return out;
}

/// Of ASCII, whatever the locale: names are C identifiers.
char upper(char c) {
  if (c >= 'a' && c <= 'z') return static_cast<char>(c - 'a' + 'A');
  return c == '-' || c == '.' ? '_' : c;
}

}  // namespace

std::string probe_symbol(const Provider& provider, const Probe& probe) {
  return symbol("__dtrace_", provider, probe);
}

std::string enabled_symbol(const Provider& provider, const Probe& probe) {
  return symbol("__dtraceenabled_", provider, probe);
}

std::string semaphore_symbol(const Provider& provider, const Probe& probe) {
  return symbol("__dtracesemaphore_", provider, probe);
}

std::string macro_name(const Provider& provider, const Probe& probe) {
  std::string out = provider.name + "_" + probe.name;
  for (char& c : out) c = upper(c);
  return out;
}

std::string probe_name(std::string_view identifier) {
  std::string out;
  for (std::size_t at = 0; at < identifier.size(); ++at) {
    if (identifier.substr(at, 2) == "__") {
      out += '-';
      ++at;
    } else {
      out += identifier[at];
    }
  }
  return out;
}

}  // namespace vitrine::usdt
