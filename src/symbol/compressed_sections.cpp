#include "symbol/compressed_sections.hpp"

#include <elf.h>
#include <gelf.h>
#include <libdeflate.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace vitrine::symbol {
namespace {

/// No stream holds more for each of its bytes.
constexpr std::uint64_t max_ratio = 1032;

/// Calls `act` with each compressed section that has content, its header and its name.
template <class Act>
void visit_compressed(Elf* elf, Act act) {
  std::size_t names = 0;
  if (elf_getshdrstrndx(elf, &names) != 0) return;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header{};
    if (gelf_getshdr(section, &header) == nullptr || (header.sh_flags & SHF_COMPRESSED) == 0 ||
        header.sh_type == SHT_NOBITS)
      continue;
    if (const char* name = elf_strptr(elf, names, header.sh_name); name != nullptr)
      act(section, header, std::string_view(name));
  }
}

/// By libdw, unless it is hidden.
bool is_read(std::string_view section) {
  constexpr std::string_view all[] = {
      ".debug_info",        ".debug_types", ".debug_abbrev",  ".debug_aranges", ".debug_line",
      ".debug_line_str",    ".debug_str",   ".debug_addr",    ".debug_ranges",  ".debug_rnglists",
      ".debug_str_offsets", ".debug_loc",   ".debug_loclists"};
  return std::ranges::find(all, section) != std::end(all);
}

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* one) const { libdeflate_free_decompressor(one); }
};
using Decompressor = std::unique_ptr<libdeflate_decompressor, FreeDecompressor>;

}  // namespace

void hide_unused_sections(Elf* elf) {
  constexpr std::string_view unused[] = {
      ".debug_loc",      ".debug_loclists",     ".debug_frame",
      ".debug_macro",    ".debug_macinfo",      ".debug_pubnames",
      ".debug_pubtypes", ".debug_gnu_pubnames", ".debug_gnu_pubtypes"};
  visit_compressed(elf, [&](Elf_Scn* section, GElf_Shdr& header, std::string_view name) {
    if (std::ranges::find(unused, name) == std::end(unused)) return;
    header.sh_type = SHT_NOBITS;
    gelf_update_shdr(section, &header);
  });
}

std::string still_compressed(Elf* elf) {
  std::string first;
  visit_compressed(elf, [&](Elf_Scn*, const GElf_Shdr&, std::string_view name) {
    if (first.empty() && is_read(name)) first = name;
  });
  return first;
}

void InflatedSections::Free::operator()(void* bytes) const {
  std::free(bytes);  // NOLINT(cppcoreguidelines-no-malloc)
}

InflatedSections::InflatedSections(Elf* elf) {
  Decompressor decompressor;
  const std::size_t header_size = gelf_fsize(elf, ELF_T_CHDR, 1, EV_CURRENT);
  visit_compressed(elf, [&](Elf_Scn* section, GElf_Shdr& header, std::string_view name) {
    GElf_Chdr packed{};
    if (!is_read(name) || gelf_getchdr(section, &packed) == nullptr ||
        packed.ch_type != ELFCOMPRESS_ZLIB)
      return;
    Elf_Data* const data = elf_getdata(section, nullptr);
    Elf_Data* const raw = elf_rawdata(section, nullptr);
    if (data == nullptr || raw == nullptr || raw->d_buf == nullptr || raw->d_size <= header_size)
      return;
    const std::size_t stream = raw->d_size - header_size;
    if (packed.ch_size == 0 || packed.ch_size / max_ratio > stream) return;
    if (decompressor == nullptr) decompressor.reset(libdeflate_alloc_decompressor());
    // NOLINTNEXTLINE(cppcoreguidelines-no-malloc): as bytes of new[], without values
    std::unique_ptr<void, Free> content(std::malloc(packed.ch_size));
    if (decompressor == nullptr || content == nullptr) return;
    std::size_t taken = 0;
    if (libdeflate_zlib_decompress_ex(
            decompressor.get(), static_cast<const std::byte*>(raw->d_buf) + header_size, stream,
            content.get(), packed.ch_size, &taken, nullptr) != LIBDEFLATE_SUCCESS ||
        taken != stream)
      return;
    // libelf has read the section, and does not do so again: this is its content from now on.
    for (Elf_Data* const known : {data, raw}) {
      known->d_buf = content.get();
      known->d_size = packed.ch_size;
      known->d_type = ELF_T_BYTE;
    }
    header.sh_flags &= ~GElf_Xword{SHF_COMPRESSED};
    gelf_update_shdr(section, &header);
    contents_.push_back(std::move(content));
  });
}

}  // namespace vitrine::symbol
