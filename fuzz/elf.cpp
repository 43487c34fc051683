// An ELF module: in memory by its dynamic section, and as a file by its section headers.
#include <algorithm>
#include <array>
#include <string_view>

#include "elf/file.hpp"
#include "elf/image.hpp"
#include "elf/notes.hpp"
#include "elf/relocations.hpp"
#include "elf/symbols.hpp"
#include "input.hpp"

using namespace vitrine;

namespace {

constexpr std::array<std::string_view, 3> names{"custom_labels_abi_version",
                                                "custom_labels_current_set", "otel_thread_ctx_v1"};
constexpr std::array<std::uint32_t, 4> types{16, 17, 18, 36};  // the TLS relocations of x86-64

void module_in_memory(Memory& memory) {
  const auto image = elf::read_image(memory, fuzz::base);
  if (!image) return;
  (void)elf::tls_segment(*image);
  (void)elf::interpreter(memory, *image);
  (void)elf::read_notes(memory, *image);
  const auto id = elf::build_id_note(memory, *image);
  fuzz::require(!id || id->size <= 64);
  const auto dynamic = elf::read_dynamic(memory, *image);
  if (!dynamic) return;
  const auto symbols = elf::find_symbols(memory, *dynamic, names);
  fuzz::require(!symbols || symbols->size() == names.size());
  const auto relocations = elf::find_relocations(memory, *image, *dynamic, types);
  if (!relocations) return;
  for (const elf::Relocation& relocation : *relocations) {
    fuzz::require(image->holds(relocation.where, 8));
    (void)elf::has_name(memory, *dynamic, relocation.symbol, names[1]);
  }
}

void file_of_any_shape(Memory& file) {
  constexpr std::uint64_t most = 1U << 16;
  const auto elf = elf::read_file(file);
  if (!elf) return;
  fuzz::require(elf::build_id(file, *elf).size() <= 64);
  for (std::size_t i = 0; i < std::min<std::size_t>(elf->sections.size(), 64); ++i) {
    const elf::Section& section = elf->sections[i];
    const auto content = elf::read_section(file, *elf, section, most);
    fuzz::require(!content || content->bytes.size() <= most);
  }
  constexpr std::array<Address, 3> addresses{0, 0x1180, ~Address{0}};
  fuzz::require(elf::functions_around(file, *elf, addresses).size() == addresses.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::RegionMemory memory(fuzz::base, fuzz::bytes(data, size));
  module_in_memory(memory);
  fuzz::RegionMemory file(0, fuzz::bytes(data, size));
  (void)elf::find_file_symbols(file, names);
  file_of_any_shape(file);
  return 0;
}
