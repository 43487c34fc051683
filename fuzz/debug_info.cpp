// A file with debug information: what a worker does with it, libdw included. Its parser may give up on a
// hostile file as it likes (that is what workers are for); what we make of its responses is bounded.
#include "file.hpp"
#include "symbol/file_names.hpp"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  symbol::Limits limits;
  limits.inline_depth = 8;
  limits.name_bytes = 256;
  const symbol::DebugSearch nowhere{"/bin/fuzzed", 0};
  symbol::FileNames names(symbol::NameSources::find(fuzz::file(fuzz::bytes(data, size)), nowhere),
                          limits);
  const std::vector<Address> addresses{0ULL, 0x280ULL, 0x284ULL, 0x293ULL, 0x2a6ULL, ~0ULL};
  for (const symbol::Frames& frames : names.find(addresses, true)) {
    fuzz::require(frames.size() <= limits.inline_depth + 1);
    for (const symbol::Frame& frame : frames)
      fuzz::require(frame.name.size() <= limits.name_bytes &&
                    frame.system_name.size() <= limits.name_bytes &&
                    frame.file.size() <= limits.name_bytes);
  }
  (void)names.problem();
  return 0;
}
