// Names that symbol tables hold, demangled; and the patterns by which users mean probes:
// {pattern}{NUL}{name}.
#include "base/limits.hpp"
#include "input.hpp"
#include "probe/probe.hpp"
#include "symbol/demangle.hpp"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find('\0'), input.size());
  const std::string first(input.substr(0, end));
  const std::string second(input.substr(std::min(end + 1, input.size())));
  for (const std::string& name : {first, second}) {
    const std::string shown = symbol::demangled_anywhere(name);
    fuzz::require(shown.size() <= limits::demangled_bytes + name.size() + 3);  // " (SUFFIX)"
  }
  probe::Probe probe;
  probe.provider = second.substr(0, second.size() / 2);
  probe.name = second.substr(second.size() / 2);
  (void)probe::Pattern(first).matches(probe, 42);
  fuzz::require(probe::Pattern("*:*").matches(probe));
  return 0;
}
