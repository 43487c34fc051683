// A section of stapsdt notes, and what becomes of them: {u8 class and byte order}{section}.
#include "base/limits.hpp"
#include "input.hpp"
#include "probe/notes.hpp"
#include "probe/site_address.hpp"

using namespace vitrine;

namespace {

bool within(std::span<const std::byte> section, std::string_view text) {
  const auto* begin = reinterpret_cast<const char*>(section.data());
  return text.empty() ||
         (text.data() >= begin && text.data() + text.size() <= begin + section.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto section = fuzz::bytes(data + 1, size - 1);
  const auto found = probe::decode_stapsdt_notes(section, {(*data & 1) != 0, (*data & 2) != 0});
  fuzz::require(found.problems.list.size() <= limits::note_problems);
  const elf::Segment segments[] = {{PT_LOAD, PF_R | PF_X, 0, 0x400000, 0x10000, 0x20000, 4096},
                                   {PT_LOAD, PF_R | PF_W, 0x10000, 0x420000, 256, 512, 4096},
                                   {PT_GNU_RELRO, PF_R, 0x10000, 0x420000, 64, 64, 1}};
  probe::FileLayout layout;
  layout.segments = segments;
  layout.stapsdt_base = 0x400100;
  std::uint64_t last = 0;
  for (const probe::StapsdtNote& note : found.notes) {
    fuzz::require(note.offset >= last && note.offset < section.size());
    last = note.offset;
    fuzz::require(!note.provider.empty() && !note.name.empty());
    fuzz::require(within(section, note.provider) && within(section, note.name) &&
                  within(section, note.arguments));
    const auto site = probe::make_site(note, layout);
    fuzz::require(!site || site->file_offset.has_value() || !site->problems.empty());
    fuzz::require(!site || !site->semaphore_offset || *site->semaphore_offset % 2 == 0);
  }
  return 0;
}
