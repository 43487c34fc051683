// The text of /proc/PID/maps, whole and in pieces.
#include "target/maps.hpp"

#include <string>
#include <vector>

#include "input.hpp"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> whole, pieces;
  target::LineCutter cutter;
  cutter.feed(text, [&](std::string_view line) { whole.emplace_back(line); });
  target::LineCutter small;
  for (std::size_t at = 0; at < size; at += 7)
    small.feed(text.substr(at, 7), [&](std::string_view line) { pieces.emplace_back(line); });
  fuzz::require(whole == pieces || size > 32 * 1024);

  for (const std::string& line : whole) {
    const auto mapping = target::parse_mapping(line);
    if (!mapping) continue;
    fuzz::require(mapping->start < mapping->end);
    fuzz::require(mapping->name.size() <= line.size());
    (void)target::may_be_context(*mapping);
  }
  return 0;
}
