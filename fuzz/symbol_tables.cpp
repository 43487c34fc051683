// The functions of a file without debug information, packed ones (MiniDebugInfo) included, and the name
// of its debug file.
#include "file.hpp"
#include "symbol/file_names.hpp"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const symbol::DebugSearch nowhere{"/bin/fuzzed", 0};
  symbol::FileNames names(symbol::NameSources::find(fuzz::file(fuzz::bytes(data, size)), nowhere),
                          {});
  const std::vector<Address> addresses{0ULL, 0x280ULL, 0x293ULL, 0x1123ULL, ~0ULL};
  for (const symbol::Frames& frames : names.find(addresses, false)) {
    fuzz::require(frames.size() <= 1);
  }
  (void)names.problem();
  return 0;
}
