#include "usdt/object_writer.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <span>

#include "base/memory.hpp"

namespace vitrine::usdt {
namespace {

constexpr std::size_t word = sizeof(Elf32_Word);

std::size_t alignment(const ObjectMachine& machine) {
  return machine.wide ? 8 : 4;
}

std::uint32_t word_at(std::span<const std::byte> bytes, std::size_t at) {
  std::uint32_t value = 0;
  std::memcpy(&value, &bytes[at], word);
  return value;
}

/// Properties: type, size, that many bytes, padded. What does not fit ends the reading: a note that
/// a linker would not understand claims nothing.
std::uint32_t bits_of(const ObjectMachine& machine, std::span<const std::byte> properties) {
  for (std::size_t at = 0; properties.size() - at >= 2 * word;) {
    const std::uint32_t type = word_at(properties, at), size = word_at(properties, at + word);
    at += 2 * word;
    if (size > properties.size() - at) return 0;
    if (type == machine.feature_property && size == word) return word_at(properties, at);
    at += std::min(align_up(size, alignment(machine)), properties.size() - at);
  }
  return 0;
}

}  // namespace

Result<std::uint32_t> feature_bits(const ObjectFile& object) {
  for (std::uint32_t i = 1; i < object.sections().size(); ++i) {
    if (object.sections()[i].type != SHT_NOTE || object.section_name(i) != ".note.gnu.property")
      continue;
    const auto note = object.content(i);
    constexpr std::size_t header = sizeof(Elf32_Nhdr) + sizeof ELF_NOTE_GNU;
    if (note.size() < header || word_at(note, 0) != sizeof ELF_NOTE_GNU ||
        word_at(note, word) > note.size() - header ||
        word_at(note, 2 * word) != NT_GNU_PROPERTY_TYPE_0)
      return fail(ErrorCode::malformed, object.describe(i) + ": it has no note of GNU properties");
    return bits_of(object.machine(), note.subspan(header, word_at(note, word)));
  }
  return 0U;
}

std::vector<std::byte> property_note(const ObjectMachine& machine, std::uint32_t bits) {
  std::vector<std::byte> note;
  const auto append_word = [&](std::uint64_t value) {
    append(note, static_cast<std::uint32_t>(value));
  };
  append_word(sizeof ELF_NOTE_GNU);
  append_word(align_up(3 * word, alignment(machine)));
  append_word(NT_GNU_PROPERTY_TYPE_0);
  const auto name = std::as_bytes(std::span(ELF_NOTE_GNU));
  note.insert(note.end(), name.begin(), name.end());
  append_word(machine.feature_property);
  append_word(word);
  append_word(bits);
  note.resize(align_up(note.size(), alignment(machine)));
  return note;
}

namespace {

struct Elf64 {
  using Header = Elf64_Ehdr;
  using SectionHeader = Elf64_Shdr;
  using Symbol = Elf64_Sym;
};

struct Elf32 {
  using Header = Elf32_Ehdr;
  using SectionHeader = Elf32_Shdr;
  using Symbol = Elf32_Sym;
};

void align(std::vector<std::byte>& bytes, std::size_t to) {
  bytes.resize(align_up(bytes.size(), to));
}

template <class Field, class Value>
void set(Field& field, Value value) {
  field = static_cast<Field>(value);
}

}  // namespace

std::uint32_t ObjectWriter::add(NewSection section) {
  sections_.push_back({std::move(section), 0, 0, 0, {}, false});
  return static_cast<std::uint32_t>(sections_.size() - 1);
}

std::uint32_t ObjectWriter::add(DefinedSymbol symbol) {
  symbols_.push_back(std::move(symbol));
  return static_cast<std::uint32_t>(symbols_.size() - 1);
}

std::uint32_t ObjectWriter::add_group(std::uint32_t symbol) {
  const std::uint32_t index = add(NewSection{".group", SHT_GROUP, 0, sizeof(Elf32_Word), {}});
  append(sections_[index].section.content, Elf32_Word{GRP_COMDAT});
  sections_[index].info = symbol;
  sections_[index].entry_size = sizeof(Elf32_Word);
  sections_[index].group = true;
  return index;
}

void ObjectWriter::add_to_group(std::uint32_t group, std::uint32_t section) {
  append(sections_[group].section.content, Elf32_Word{section});
  sections_[section].section.flags |= SHF_GROUP;
}

void ObjectWriter::set_content(std::uint32_t section, std::vector<std::byte> content) {
  sections_[section].section.content = std::move(content);
}

void ObjectWriter::define(std::uint32_t symbol, std::uint32_t section) {
  symbols_[symbol].section = section;
}

void ObjectWriter::relocate(std::uint32_t section, std::uint64_t offset, std::uint32_t type,
                            std::uint32_t symbol, std::int64_t addend) {
  sections_[section].relocations.push_back({offset, type, symbol, addend});
}

std::uint32_t ObjectWriter::name(const std::string& text) {
  if (text.empty()) return 0;
  const auto at = static_cast<std::uint32_t>(names_.size());
  names_.append(text).push_back('\0');
  return at;
}

template <class Elf>
std::vector<std::byte> ObjectWriter::relocation_entries(
    const Section& section, const std::vector<std::uint32_t>& index_of) const {
  std::vector<std::byte> entries;
  for (const Relocation& one : section.relocations) {
    const std::uint32_t symbol = index_of[one.symbol];
    if constexpr (std::is_same_v<Elf, Elf64>)
      append(entries, Elf64_Rela{one.offset, ELF64_R_INFO(symbol, one.type), one.addend});
    else
      append(entries,
             Elf32_Rel{static_cast<Elf32_Addr>(one.offset), ELF32_R_INFO(symbol, one.type)});
  }
  return entries;
}

void ObjectWriter::add_relocation_sections(const std::vector<std::uint32_t>& index_of) {
  const auto last = static_cast<std::uint32_t>(sections_.size());
  for (std::uint32_t i = 1; i < last; ++i) {
    if (sections_[i].relocations.empty()) continue;
    auto entries = machine_.wide ? relocation_entries<Elf64>(sections_[i], index_of)
                                 : relocation_entries<Elf32>(sections_[i], index_of);
    const std::uint32_t index =
        add(NewSection{(machine_.addends ? ".rela" : ".rel") + sections_[i].section.name,
                       machine_.addends ? std::uint32_t{SHT_RELA} : std::uint32_t{SHT_REL},
                       SHF_INFO_LINK, machine_.wide ? 8U : 4U, std::move(entries)});
    sections_[index].info = i;
    sections_[index].entry_size = machine_.addends ? sizeof(Elf64_Rela) : sizeof(Elf32_Rel);
  }
}

template <class Elf>
std::vector<std::byte> ObjectWriter::write(const std::vector<std::uint32_t>& order) {
  std::vector<std::byte> symbol_table;
  append(symbol_table, typename Elf::Symbol{});
  std::uint32_t locals = 1;
  for (const std::uint32_t handle : order) {
    const DefinedSymbol& symbol = symbols_[handle];
    typename Elf::Symbol raw{};
    raw.st_name = name(symbol.name);
    set(raw.st_info, ELF64_ST_INFO(symbol.binding, symbol.type));
    raw.st_other = symbol.visibility;
    set(raw.st_shndx, symbol.section);
    set(raw.st_value, symbol.value);
    set(raw.st_size, symbol.size);
    append(symbol_table, raw);
    if (symbol.binding == STB_LOCAL) ++locals;
  }
  const std::uint32_t table =
      add(NewSection{".symtab", SHT_SYMTAB, 0, machine_.wide ? 8U : 4U, std::move(symbol_table)});
  sections_[table].info = locals;
  sections_[table].entry_size = sizeof(typename Elf::Symbol);
  const std::uint32_t strings = add(NewSection{".strtab", SHT_STRTAB, 0, 1, {}});
  sections_[table].link = strings;

  std::vector<typename Elf::SectionHeader> headers(sections_.size());
  for (std::size_t i = 1; i < sections_.size(); ++i)
    headers[i].sh_name = name(sections_[i].section.name);
  const auto names = std::as_bytes(std::span(names_));
  sections_[strings].section.content.assign(names.begin(), names.end());

  std::vector<std::byte> file(sizeof(typename Elf::Header));
  for (std::size_t i = 1; i < sections_.size(); ++i) {
    Section& one = sections_[i];
    align(file, one.section.alignment);
    auto& header = headers[i];
    header.sh_type = one.section.type;
    set(header.sh_flags, one.section.flags);
    set(header.sh_offset, file.size());
    set(header.sh_size, one.section.content.size());
    const bool about_symbols =
        one.group || one.section.type == SHT_REL || one.section.type == SHT_RELA;
    header.sh_link = about_symbols ? table : one.link;
    header.sh_info = one.info;
    header.sh_addralign = one.section.alignment;
    header.sh_entsize = one.entry_size;
    file.insert(file.end(), one.section.content.begin(), one.section.content.end());
  }
  align(file, 8);
  typename Elf::Header header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = machine_.wide ? ELFCLASS64 : ELFCLASS32;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_ident[EI_OSABI] = ELFOSABI_GNU;
  header.e_type = ET_REL;
  header.e_machine = machine_.elf;
  header.e_version = EV_CURRENT;
  set(header.e_shoff, file.size());
  header.e_ehsize = sizeof header;
  header.e_shentsize = sizeof headers[0];
  set(header.e_shnum, headers.size());
  set(header.e_shstrndx, strings);
  std::memcpy(file.data(), &header, sizeof header);
  for (const auto& one : headers) append(file, one);
  return file;
}

Result<std::vector<std::byte>> ObjectWriter::finish() {
  std::vector<std::uint32_t> order, index_of(symbols_.size());
  for (const bool local : {true, false})
    for (std::uint32_t i = 0; i < symbols_.size(); ++i)
      if ((symbols_[i].binding == STB_LOCAL) == local) order.push_back(i);
  for (std::uint32_t i = 0; i < order.size(); ++i) index_of[order[i]] = i + 1;
  add_relocation_sections(index_of);
  for (Section& section : sections_)
    if (section.group) section.info = index_of[section.info];
  constexpr std::size_t tables = 2;  // symbols and strings
  if (sections_.size() + tables >= SHN_LORESERVE)
    return fail(ErrorCode::limit,
                fmt::format("the probe object would have {} sections", sections_.size() + tables),
                "declare fewer probes in one file: the limit is about 16,000");
  return machine_.wide ? write<Elf64>(order) : write<Elf32>(order);
}

}  // namespace vitrine::usdt
