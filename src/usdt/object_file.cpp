// What must hold of an object's sections, groups and relocations before anyone uses them.

#include "usdt/object_file.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>

#include "base/limits.hpp"
#include "base/memory.hpp"
#include "elf/symbol_table.hpp"
#include "sandbox/files.hpp"

namespace vitrine::usdt {
namespace {

constexpr std::uint64_t max_bytes = 2ULL << 30;  // offsets in ELF32 end there

}  // namespace

Result<InputFile> open_input(const std::string& path) {
  // A pipe without a writer would hang.
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) return sandbox::file_error(path, "read", errno);
  if (S_ISDIR(status.st_mode)) return fail(ErrorCode::usage, path + " is a directory");
  if (!S_ISREG(status.st_mode)) return fail(ErrorCode::usage, path + " is not a regular file");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size > max_bytes)
    return fail(ErrorCode::limit,
                fmt::format("{} has {} bytes; at most {} are read", path, size, max_bytes));
  return InputFile{std::move(file), size};
}

Result<std::vector<std::byte>> read_whole(const InputFile& file) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(file.size));
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = ::pread64(file.descriptor.get(), bytes.data() + have, bytes.size() - have,
                                  static_cast<off64_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return fail(ErrorCode::failed, fmt::format("it cannot be read: {}", std::strerror(errno)));
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

namespace {

constexpr std::uint32_t sht_crel = 0x40000014;

class BytesMemory final : public Memory {
 public:
  explicit BytesMemory(std::span<const std::byte> bytes) : bytes_(bytes) {}

  void read(std::span<ReadRequest> requests) override {
    for (ReadRequest& request : requests) {
      request.got = 0;
      if (request.address >= bytes_.size()) continue;
      const auto from = bytes_.subspan(static_cast<std::size_t>(request.address));
      request.got = std::min(from.size(), request.into.size());
      std::copy_n(from.begin(), request.got, request.into.begin());
    }
  }

 private:
  std::span<const std::byte> bytes_;
};

bool starts_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

/// What is no object file, by what it is instead.
Result<void> check_kind(std::span<const std::byte> bytes) {
  if (bytes.empty()) return malformed("it is empty");
  if (starts_with(bytes, "!<arch>\n") || starts_with(bytes, "!<thin>\n"))
    return fail(ErrorCode::unsupported, "it is an archive, not an object",
                "give the objects before they are archived, or extract them with ar x");
  return {};
}

Result<void> check_type(const elf::File& elf) {
  if (elf.encoding.big_endian)
    return fail(ErrorCode::unsupported, "it is for a big-endian machine",
                fmt::format("objects for {} can be processed", known_machines));
  if (elf.type == ET_EXEC || elf.type == ET_DYN)
    return fail(ErrorCode::unsupported,
                fmt::format("it is {}, not a relocatable object",
                            elf.type == ET_EXEC ? "an executable" : "a shared object or PIE"),
                "process the objects before they are linked");
  if (elf.type != ET_REL)
    return fail(ErrorCode::unsupported,
                fmt::format("it is not a relocatable object: its ELF type is {}{}", elf.type,
                            elf.type == ET_CORE ? ", a core dump" : ""));
  return {};
}

}  // namespace

std::string_view ObjectFile::section_name(std::uint32_t section) const {
  return elf_.name(elf_.sections[section]);
}

std::string ObjectFile::describe(std::uint32_t section) const {
  if (section >= elf_.sections.size()) return fmt::format("section {}", section);
  const auto name = section_name(section);
  if (name.empty()) return fmt::format("section {}", section);
  return fmt::format("{} (section {})", name.substr(0, 128), section);
}

std::span<const std::byte> ObjectFile::content(std::uint32_t section) const {
  const elf::Section& header = elf_.sections[section];
  if (header.type == SHT_NOBITS || header.type == SHT_NULL) return {};
  return bytes_.subspan(static_cast<std::size_t>(header.offset),
                        static_cast<std::size_t>(header.size));
}

Result<ObjectFile> ObjectFile::read(std::span<const std::byte> bytes) {
  TRY(check_kind(bytes));
  BytesMemory memory(bytes);
  auto elf = elf::read_file(memory);
  if (!elf) return malformed(elf.error().message);
  TRY(check_type(*elf));
  ObjectFile object;
  object.machine_ = find_machine(elf->machine, elf->encoding.wide);
  if (object.machine_ == nullptr)
    return fail(ErrorCode::unsupported,
                fmt::format("it is for a machine that is not supported (e_machine {}, {} bits)",
                            elf->machine, elf->encoding.wide ? 64 : 32),
                fmt::format("objects for {} can be processed", known_machines));
  if (!elf->problems.empty()) return malformed(elf->problems.front());
  if (elf->sections.empty()) return malformed("it has no sections");
  object.bytes_ = bytes;
  object.elf_ = std::move(*elf);
  TRY(object.check_sections());
  TRY(object.check_overlaps());
  TRY(object.find_tables());
  TRY(object.read_symbols());
  TRY(object.check_groups());
  TRY(object.check_relocations());
  return object;
}

Result<void> ObjectFile::find_tables() {
  for (std::uint32_t i = 1; i < sections().size(); ++i) {
    const elf::Section& section = sections()[i];
    if (section.type == sht_crel)
      return fail(ErrorCode::unsupported, describe(i) + ": its relocations are compressed (CREL)",
                  "compile without -Wa,--crel");
    if (section.type == SHT_SYMTAB && symbol_table_ != 0)
      return malformed(
          fmt::format("it has two symbol tables: {} and {}", describe(symbol_table_), describe(i)));
    if (section.type == SHT_SYMTAB) symbol_table_ = i;
    if (section.type == SHT_SYMTAB_SHNDX) wide_indices_ = i;
  }
  return {};
}

Result<void> ObjectFile::read_symbols() {
  if (symbol_table_ == 0) return {};
  const elf::Section& table = sections()[symbol_table_];
  const std::size_t entry = elf::symbol_bytes(elf_.encoding);
  if (table.entry_size != entry || table.size % entry != 0 || table.size == 0)
    return malformed(fmt::format("{}: {} bytes in entries of {}, but {} are required",
                                 describe(symbol_table_), table.size, table.entry_size, entry));
  const std::uint64_t count = table.size / entry;
  if (count > limits::file_symbols)
    return fail(ErrorCode::limit,
                fmt::format("{}: it has {} symbols; at most {} are read", describe(symbol_table_),
                            count, limits::file_symbols));
  if (table.info > count)
    return malformed(fmt::format("{}: its first global symbol is {} of {}", describe(symbol_table_),
                                 table.info, count));
  if (table.link == 0 || table.link >= sections().size() ||
      sections()[table.link].type != SHT_STRTAB)
    return malformed(fmt::format("{}: its names are in section {}, which is not a string table",
                                 describe(symbol_table_), table.link));
  const auto strings = content(table.link);
  if (strings.empty() || strings.back() != std::byte{0})
    return malformed(describe(table.link) + ": the string table does not end with a zero byte");
  if (wide_indices_ != 0 && (sections()[wide_indices_].link != symbol_table_ ||
                             sections()[wide_indices_].size != count * sizeof(Elf32_Word)))
    return malformed(describe(wide_indices_) + ": it does not match the symbol table");

  const auto raw = content(symbol_table_);
  symbols_.reserve(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    const elf::TableSymbol symbol = elf::decode_symbol(elf_.encoding, raw.data() + i * entry);
    if (symbol.name >= strings.size())
      return malformed(fmt::format("{}: the name of symbol {} is at {} of {} bytes",
                                   describe(symbol_table_), i, symbol.name, strings.size()));
    std::uint32_t section = symbol.section;
    if (section == SHN_XINDEX) {
      if (wide_indices_ == 0)
        return malformed(fmt::format("{}: the section of symbol {} is in a table that is missing",
                                     describe(symbol_table_), i));
      section = at<Elf32_Word>(content(wide_indices_), i * sizeof(Elf32_Word));
    } else if (section >= SHN_LORESERVE) {
      section = 0;  // absolute, common
    }
    if (section >= sections().size())
      return malformed(fmt::format("{}: symbol {} is in section {} of {}", describe(symbol_table_),
                                   i, section, sections().size()));
    symbols_.push_back({reinterpret_cast<const char*>(strings.data()) + symbol.name, symbol.value,
                        symbol.size, section, symbol.type, symbol.binding});
  }
  return {};
}

Relocation ObjectFile::relocation(const RelocationTable& table, std::size_t i) const {
  Relocation one;
  if (machine().wide) {
    const std::size_t from =
        table.offset + i * (table.addends ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel));
    const auto raw = at<Elf64_Rel>(bytes_, from);
    one = {raw.r_offset, static_cast<std::uint32_t>(ELF64_R_TYPE(raw.r_info)),
           static_cast<std::uint32_t>(ELF64_R_SYM(raw.r_info)), 0,
           from + offsetof(Elf64_Rel, r_info)};
    if (table.addends) one.addend = at<Elf64_Rela>(bytes_, from).r_addend;
  } else {
    const std::size_t from =
        table.offset + i * (table.addends ? sizeof(Elf32_Rela) : sizeof(Elf32_Rel));
    const auto raw = at<Elf32_Rel>(bytes_, from);
    one = {raw.r_offset, ELF32_R_TYPE(raw.r_info), ELF32_R_SYM(raw.r_info), 0,
           from + offsetof(Elf32_Rel, r_info)};
    if (table.addends) one.addend = at<Elf32_Rela>(bytes_, from).r_addend;
  }
  if (!table.addends) {
    const auto code = content(table.target);
    if (one.offset <= code.size() && code.size() - one.offset >= sizeof(std::int32_t))
      one.addend = at<std::int32_t>(code, static_cast<std::size_t>(one.offset));
  }
  return one;
}

Result<void> ObjectFile::check_sections() {
  for (std::uint32_t i = 1; i < sections().size(); ++i) {
    const elf::Section& section = sections()[i];
    if (section.type == SHT_NOBITS || section.type == SHT_NULL) continue;
    if (section.offset > bytes_.size() || section.size > bytes_.size() - section.offset)
      return malformed(fmt::format("{}: its {} bytes at {} reach beyond the end of the file, {}",
                                   describe(i), section.size, section.offset, bytes_.size()));
  }
  return {};
}

/// A byte that is two things would be changed for the one and spoil the other.
Result<void> ObjectFile::check_overlaps() const {
  struct Range {
    std::uint64_t from, to;
    std::uint32_t section;  ///< 0: the file's own headers
  };
  std::uint64_t headers_at = 0;
  if (machine().wide)
    headers_at = at<Elf64_Ehdr>(bytes_, 0).e_shoff;
  else
    headers_at = at<Elf32_Ehdr>(bytes_, 0).e_shoff;
  const std::uint64_t header = machine().wide ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
  std::vector<Range> ranges{{0, machine().wide ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr), 0},
                            {headers_at, headers_at + sections().size() * header, 0}};
  for (std::uint32_t i = 1; i < sections().size(); ++i)
    if (const auto bytes = content(i); !bytes.empty())
      ranges.push_back({sections()[i].offset, sections()[i].offset + bytes.size(), i});
  std::ranges::sort(ranges, {}, [](const Range& one) { return std::pair(one.from, one.to); });
  for (std::size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].from < ranges[i - 1].to)
      return malformed(fmt::format(
          "{}: it overlaps {}", describe(std::max(ranges[i].section, ranges[i - 1].section)),
          ranges[i].section == 0 || ranges[i - 1].section == 0
              ? "the headers of the file"
              : describe(std::min(ranges[i].section, ranges[i - 1].section))));
  return {};
}

Result<void> ObjectFile::check_groups() const {
  std::vector<bool> taken(sections().size());
  for (std::uint32_t i = 1; i < sections().size(); ++i) {
    const elf::Section& group = sections()[i];
    if (group.type != SHT_GROUP) continue;
    const auto words = content(i);
    if (words.size() < sizeof(Elf32_Word) || words.size() % sizeof(Elf32_Word) != 0 ||
        group.info >= symbols_.size())
      return malformed(describe(i) + ": it is not a valid section group");
    for (std::size_t w = sizeof(Elf32_Word); w < words.size(); w += sizeof(Elf32_Word)) {
      const auto member = at<Elf32_Word>(words, w);
      if (member == 0 || member >= sections().size() || sections()[member].type == SHT_GROUP)
        return malformed(fmt::format("{}: section {} cannot be in a group", describe(i), member));
      if (taken[member])
        return malformed(fmt::format("{}: {} is in two groups", describe(i), describe(member)));
      taken[member] = true;
    }
  }
  return {};
}

Result<void> ObjectFile::check_relocations() {
  for (std::uint32_t i = 1; i < sections().size(); ++i) {
    const elf::Section& table = sections()[i];
    if (table.type != SHT_REL && table.type != SHT_RELA) continue;
    const bool addends = table.type == SHT_RELA;
    const std::size_t entry = machine().wide ? (addends ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel))
                                             : (addends ? sizeof(Elf32_Rela) : sizeof(Elf32_Rel));
    if (table.entry_size != entry || table.size % entry != 0)
      return malformed(fmt::format("{}: {} bytes in entries of {}, but {} are required",
                                   describe(i), table.size, table.entry_size, entry));
    if (table.link != symbol_table_ || symbol_table_ == 0)
      return malformed(
          fmt::format("{}: its symbols are in section {}, which is not the symbol table",
                      describe(i), table.link));
    if (table.info == 0 || table.info >= sections().size())
      return malformed(fmt::format("{}: it applies to section {} of {}", describe(i), table.info,
                                   sections().size()));
    relocations_.push_back({table.info, addends, static_cast<std::size_t>(table.offset),
                            static_cast<std::size_t>(table.size / entry)});
    const elf::Section& target = sections()[table.info];
    const bool loaded = (target.flags & SHF_ALLOC) != 0;  // debug information may be compressed
    for (std::size_t r = 0; r < relocations_.back().count; ++r) {
      const Relocation one = relocation(relocations_.back(), r);
      if (one.symbol >= symbols_.size())
        return malformed(fmt::format("{}: relocation {} refers to symbol {} of {}", describe(i), r,
                                     one.symbol, symbols_.size()));
      if (loaded && (one.offset > target.size || (one.offset == target.size && one.type != 0)))
        return malformed(fmt::format("{}: relocation {} is at {} of a section of {} bytes",
                                     describe(i), r, one.offset, target.size));
    }
  }
  return {};
}

}  // namespace vitrine::usdt
