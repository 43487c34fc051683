// ElfImage: a module as it lies in memory, made by hand for tests of what reads it. Well-formed
// until a test patches it.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vitrine::test {

/// Of a shared object whose segments follow the header.
inline Elf64_Ehdr elf_header(std::uint16_t machine) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_DYN;
  header.e_machine = machine;
  header.e_ehsize = sizeof header;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  return header;
}

class ElfImage {
 public:
  static constexpr std::uint64_t size = 64 * 1024;

  explicit ElfImage(std::uint16_t machine = EM_X86_64) : bytes_(size) {
    put(0, elf_header(machine));
    segment(PT_LOAD, 0, size, 4096);
    symbols_.emplace_back();  // index 0: none
    strings_.push_back('\0');
  }

  /// Where the next bytes go; keeps them.
  template <class T>
  std::uint64_t add(const T& value) {
    return add_bytes(std::as_bytes(std::span(&value, 1)));
  }
  std::uint64_t add_bytes(std::span<const std::byte> bytes) {
    const std::uint64_t at = (next_ + 15) / 16 * 16;
    std::memcpy(bytes_.data() + at, bytes.data(), bytes.size());
    next_ = at + bytes.size();
    return at;
  }
  std::uint64_t add_text(std::string_view text) {
    return add_bytes(std::as_bytes(std::span(text)));
  }

  /// Overwrites. Addresses are without bias.
  template <class T>
  void put(std::uint64_t at, const T& value) {
    std::memcpy(bytes_.data() + at, &value, sizeof value);
  }

  void segment(std::uint32_t type, std::uint64_t at, std::uint64_t bytes, std::uint64_t align = 8) {
    Elf64_Phdr segment{};
    segment.p_type = type;
    segment.p_offset = segment.p_vaddr = at;
    segment.p_filesz = segment.p_memsz = bytes;
    segment.p_align = align;
    segments_.push_back(segment);
  }

  /// Undefined symbols (`section` SHN_UNDEF) first: the hash table does not list them.
  std::uint32_t symbol(std::string_view name, std::uint8_t type, std::uint64_t value,
                       std::uint64_t bytes, std::uint16_t section = 1) {
    Elf64_Sym raw{};
    raw.st_name = string(name);
    raw.st_info = ELF64_ST_INFO(STB_GLOBAL, type);
    raw.st_shndx = section;
    raw.st_value = value;
    raw.st_size = bytes;
    symbols_.push_back(raw);
    names_.emplace_back(name);
    if (section == SHN_UNDEF) ++undefined_;
    return static_cast<std::uint32_t>(symbols_.size() - 1);
  }

  std::uint32_t string(std::string_view text) {
    const auto at = static_cast<std::uint32_t>(strings_.size());
    strings_.append(text).push_back('\0');
    return at;
  }

  void relocation(std::uint64_t where, std::uint32_t type, std::uint32_t symbol_index,
                  std::int64_t addend) {
    relocations_.push_back({where, ELF64_R_INFO(std::uint64_t{symbol_index}, type), addend});
  }

  void dynamic(std::int64_t tag, std::uint64_t value) {
    Elf64_Dyn entry{};
    entry.d_tag = tag;
    entry.d_un.d_val = value;
    dynamic_.push_back(entry);
  }

  /// Lays out the tables. `relocated`: the bias that a dynamic linker has added to DT_ pointers.
  /// Afterwards only put() makes sense.
  void finish(std::uint64_t relocated = 0, bool sysv_hash = false) {
    const auto pointer = [&](std::int64_t tag, std::uint64_t at) { dynamic(tag, at + relocated); };
    at_strings = add_text(strings_);
    at_symbols = add_bytes(std::as_bytes(std::span(symbols_)));
    pointer(DT_STRTAB, at_strings);
    dynamic(DT_STRSZ, strings_.size());
    pointer(DT_SYMTAB, at_symbols);
    const auto hash = sysv_hash ? sysv_table() : gnu_table();
    at_hash = add_bytes(std::as_bytes(std::span(hash)));
    pointer(sysv_hash ? DT_HASH : DT_GNU_HASH, at_hash);
    if (!relocations_.empty()) {
      pointer(DT_RELA, add_bytes(std::as_bytes(std::span(relocations_))));
      dynamic(DT_RELASZ, relocations_.size() * sizeof(Elf64_Rela));
    }
    dynamic(DT_NULL, 0);
    at_dynamic = add_bytes(std::as_bytes(std::span(dynamic_)));
    segment(PT_DYNAMIC, at_dynamic, dynamic_.size() * sizeof(Elf64_Dyn));
    for (std::size_t i = 0; i < segments_.size(); ++i)
      put(sizeof(Elf64_Ehdr) + i * sizeof(Elf64_Phdr), segments_[i]);
    put(offsetof(Elf64_Ehdr, e_phnum), static_cast<std::uint16_t>(segments_.size()));
  }

  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }

  std::uint64_t at_strings = 0, at_symbols = 0, at_hash = 0, at_dynamic = 0;

 private:
  static std::uint32_t gnu_hash(std::string_view name) {
    std::uint32_t hash = 5381;
    for (const char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
    return hash;
  }

  // One bucket, one Bloom word that lets everything pass.
  std::vector<std::uint32_t> gnu_table() const {
    const std::uint32_t first = undefined_ + 1;
    std::vector<std::uint32_t> table{1, first, 1, 6, ~0U, ~0U, first};
    for (std::size_t i = first; i < symbols_.size(); ++i)
      table.push_back((gnu_hash(names_[i - 1]) & ~1U) | (i + 1 == symbols_.size() ? 1U : 0U));
    return table;
  }

  // One bucket; its chain goes through all symbols.
  std::vector<std::uint32_t> sysv_table() const {
    const auto count = static_cast<std::uint32_t>(symbols_.size());
    std::vector<std::uint32_t> table{1, count, 1, 0};
    for (std::uint32_t i = 1; i < count; ++i) table.push_back(i + 1 == count ? 0 : i + 1);
    return table;
  }

  std::vector<std::byte> bytes_;
  std::uint64_t next_ = 0x1000;
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Sym> symbols_;
  std::vector<std::string> names_;  ///< of symbols_[1…]
  std::string strings_;
  std::vector<Elf64_Rela> relocations_;
  std::vector<Elf64_Dyn> dynamic_;
  std::uint32_t undefined_ = 0;
};

}  // namespace vitrine::test
