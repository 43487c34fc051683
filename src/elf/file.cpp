#include "elf/file.hpp"

#include <elf.h>
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/limits.hpp"

namespace vitrine::elf {
namespace {

constexpr std::uint64_t header_piece = 64 * 1024;  // bytes

/// Where the fields of the tables are, by class.
struct Layout {
  std::size_t header, segment, section;

  static Layout of(const Encoding& encoding) {
    if (encoding.wide) return {sizeof(Elf64_Ehdr), sizeof(Elf64_Phdr), sizeof(Elf64_Shdr)};
    return {sizeof(Elf32_Ehdr), sizeof(Elf32_Phdr), sizeof(Elf32_Shdr)};
  }
};

/// What of the header is needed once.
struct HeaderTables {
  std::uint64_t segments_at, sections_at;
  std::uint64_t segment_count, section_count;
  std::uint16_t segment_bytes, section_bytes;
  std::uint32_t names;
};

#define AT(field) (at + (encoding.wide ? offsetof(Elf64_Ehdr, field) : offsetof(Elf32_Ehdr, field)))
HeaderTables decode_header(const Encoding& encoding, const std::byte* at) {
  return {encoding.address(AT(e_phoff)), encoding.address(AT(e_shoff)),
          encoding.u16(AT(e_phnum)),     encoding.u16(AT(e_shnum)),
          encoding.u16(AT(e_phentsize)), encoding.u16(AT(e_shentsize)),
          encoding.u16(AT(e_shstrndx))};
}
#undef AT

#define AT(field) (at + (encoding.wide ? offsetof(Elf64_Phdr, field) : offsetof(Elf32_Phdr, field)))
Segment decode_segment(const Encoding& encoding, const std::byte* at) {
  return {encoding.u32(AT(p_type)),       encoding.u32(AT(p_flags)),
          encoding.address(AT(p_offset)), encoding.address(AT(p_vaddr)),
          encoding.address(AT(p_filesz)), encoding.address(AT(p_memsz)),
          encoding.address(AT(p_align))};
}
#undef AT

#define AT(field) (at + (encoding.wide ? offsetof(Elf64_Shdr, field) : offsetof(Elf32_Shdr, field)))
Section decode_section(const Encoding& encoding, const std::byte* at) {
  return {encoding.u32(AT(sh_name)),          encoding.u32(AT(sh_type)),
          encoding.address(AT(sh_flags)),     encoding.address(AT(sh_addr)),
          encoding.address(AT(sh_offset)),    encoding.address(AT(sh_size)),
          encoding.u32(AT(sh_link)),          encoding.u32(AT(sh_info)),
          encoding.address(AT(sh_addralign)), encoding.address(AT(sh_entsize))};
}
#undef AT

/// As many of `size` bytes as the file has. One that lies about the size costs no more than a piece.
template <class Bytes>
Bytes read_in_pieces(Memory& file, std::uint64_t at, std::uint64_t size, std::uint64_t piece) {
  Bytes bytes;
  while (bytes.size() < size) {
    const std::size_t have = bytes.size();
    const auto want = static_cast<std::size_t>(std::min(piece, size - have));
    bytes.resize(have + want);
    const std::size_t got =
        file.read_some(at + have, std::as_writable_bytes(std::span(bytes)).subspan(have));
    bytes.resize(have + got);
    if (got < want) break;
  }
  return bytes;
}

/// Up to `count` entries of `size` bytes. Complains in `problems` about those that are not there.
std::vector<std::byte> read_table(Memory& file, std::uint64_t at, std::uint64_t count,
                                  std::size_t size, const char* what,
                                  std::vector<std::string>& problems) {
  auto bytes = read_in_pieces<std::vector<std::byte>>(file, at, count * size, header_piece);
  const std::size_t whole = bytes.size() / size;
  if (whole < count)
    problems.push_back(fmt::format("the file ends after {} of its {} {}", whole, count, what));
  bytes.resize(whole * size);
  return bytes;
}

class Reader {
 public:
  Reader(Memory& file, File& into, const HeaderTables& tables)
      : file_(file), into_(into), tables_(tables), layout_(Layout::of(into.encoding)) {}

  void read() {
    extend();
    read_sections();
    read_section_names();
    read_segments();
  }

 private:
  /// Counts that do not fit into 16 bits are in the first section header.
  void extend() {
    const bool more = tables_.section_count == 0 || tables_.segment_count == PN_XNUM ||
                      tables_.names == SHN_XINDEX;
    if (!more || tables_.sections_at == 0 || tables_.section_bytes != layout_.section) return;
    std::array<std::byte, sizeof(Elf64_Shdr)> bytes{};
    if (file_.read_some(tables_.sections_at, std::span(bytes).first(layout_.section)) <
        layout_.section)
      return;
    const Section first = decode_section(into_.encoding, bytes.data());
    const std::size_t info =
        into_.encoding.wide ? offsetof(Elf64_Shdr, sh_info) : offsetof(Elf32_Shdr, sh_info);
    if (tables_.section_count == 0) tables_.section_count = first.size;
    if (tables_.segment_count == PN_XNUM)
      tables_.segment_count = into_.encoding.u32(bytes.data() + info);
    if (tables_.names == SHN_XINDEX) tables_.names = first.link;
  }

  void read_sections() {
    if (tables_.sections_at == 0 || tables_.section_count == 0) return;
    const std::uint64_t count = usable(tables_.section_count, tables_.section_bytes,
                                       layout_.section, limits::sections, "section headers");
    const auto bytes = read_table(file_, tables_.sections_at, count, layout_.section,
                                  "section headers", into_.problems);
    into_.sections.reserve(bytes.size() / layout_.section);
    for (std::size_t at = 0; at < bytes.size(); at += layout_.section)
      into_.sections.push_back(decode_section(into_.encoding, bytes.data() + at));
  }

  void read_section_names() {
    if (into_.sections.empty()) return;
    if (tables_.names == SHN_UNDEF || tables_.names >= into_.sections.size()) {
      problem("its sections have no names: the name table is section {} of {}", tables_.names,
              into_.sections.size());
      return;
    }
    const Section& table = into_.sections[tables_.names];
    if (table.type == SHT_NOBITS) return;  // a separate debug file with nothing of its own
    std::string& names = into_.section_names;
    names = read_in_pieces<std::string>(file_, table.offset,
                                        std::min<std::uint64_t>(table.size, limits::section_names),
                                        header_piece);
    if (names.size() < table.size)
      problem("only {} of the {} bytes of its section names could be read", names.size(),
              table.size);
  }

  void read_segments() {
    if (tables_.segments_at == 0 || tables_.segment_count == 0) return;
    const std::uint64_t count = usable(tables_.segment_count, tables_.segment_bytes,
                                       layout_.segment, limits::file_segments, "program headers");
    const auto bytes = read_table(file_, tables_.segments_at, count, layout_.segment,
                                  "program headers", into_.problems);
    into_.segments.reserve(bytes.size() / layout_.segment);
    for (std::size_t at = 0; at < bytes.size(); at += layout_.segment)
      into_.segments.push_back(decode_segment(into_.encoding, bytes.data() + at));
  }

  /// How many entries of a table to read.
  std::uint64_t usable(std::uint64_t count, std::size_t bytes, std::size_t expected,
                       std::uint64_t most, const char* what) {
    if (bytes != expected) {
      problem("its {} have {} bytes instead of {}: ignored", what, bytes, expected);
      return 0;
    }
    if (count > most) problem("it has {} {}: only the first {} are read", count, what, most);
    return std::min(count, most);
  }

  template <class... Args>
  void problem(fmt::format_string<Args...> text, Args&&... args) {
    into_.problems.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  Memory& file_;
  File& into_;
  HeaderTables tables_;
  Layout layout_;
};

}  // namespace

std::string_view File::name(const Section& section) const {
  const std::string_view names = section_names;
  if (section.name >= names.size()) return {};
  const auto rest = names.substr(section.name);
  return rest.substr(0, rest.find('\0'));
}

const Section* File::find(std::string_view wanted) const {
  for (const Section& section : sections)
    if (name(section) == wanted) return &section;
  return nullptr;
}

std::optional<std::uint64_t> file_offset(std::span<const Segment> segments, Address address,
                                         std::uint64_t size, std::uint32_t flags) {
  for (const Segment& segment : segments) {
    if (segment.type != PT_LOAD || (segment.flags & flags) != flags) continue;
    const std::uint64_t held = std::min(segment.file_size, segment.memory_size);
    const std::uint64_t into = address - segment.address;
    if (address < segment.address || into >= held || held - into < size) continue;
    if (segment.offset > UINT64_MAX - held) continue;  // a lie
    return segment.offset + into;
  }
  return std::nullopt;
}

Result<File> read_file(Memory& file) {
  std::array<std::byte, sizeof(Elf64_Ehdr)> bytes{};
  const std::size_t got = file.read_some(0, bytes);
  const auto ident = [&](std::size_t i) { return std::to_integer<unsigned char>(bytes[i]); };
  if (got < SELFMAG || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0)
    return fail(ErrorCode::malformed, "it is not an ELF file",
                "a program, a library or an object is required");
  File elf;
  if ((ident(EI_CLASS) != ELFCLASS32 && ident(EI_CLASS) != ELFCLASS64) ||
      (ident(EI_DATA) != ELFDATA2LSB && ident(EI_DATA) != ELFDATA2MSB))
    return fail(ErrorCode::malformed, fmt::format("its ELF header has the class {} and encoding {}",
                                                  ident(EI_CLASS), ident(EI_DATA)));
  elf.encoding = {ident(EI_CLASS) == ELFCLASS64, ident(EI_DATA) == ELFDATA2MSB};
  if (got < Layout::of(elf.encoding).header)
    return fail(ErrorCode::malformed, "it ends within its ELF header");
  // At the same place in both classes.
  elf.type = elf.encoding.u16(bytes.data() + offsetof(Elf64_Ehdr, e_type));
  elf.machine = elf.encoding.u16(bytes.data() + offsetof(Elf64_Ehdr, e_machine));
  Reader(file, elf, decode_header(elf.encoding, bytes.data())).read();
  return elf;
}

namespace {

constexpr std::uint64_t section_piece = 4ULL << 20;  // bytes
constexpr std::uint32_t compress_zlib = 1;           // ELFCOMPRESS_ZLIB

std::vector<std::byte> content_of(Memory& file, const Section& section, std::uint64_t most) {
  return read_in_pieces<std::vector<std::byte>>(file, section.offset, std::min(section.size, most),
                                                section_piece);
}

std::string cut_at(std::uint64_t most, std::uint64_t size) {
  return fmt::format("only the first {} of its {} bytes are read", most, size);
}

/// Output grows with what comes out, never with what the header promises.
Result<SectionBytes> unpack(std::span<const std::byte> packed, std::uint64_t size,
                            std::uint64_t most) {
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) return fail(ErrorCode::failed, "zlib did not start");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  SectionBytes section;
  int state = Z_OK;
  while (state == Z_OK && section.bytes.size() < std::min(size, most)) {
    const std::size_t have = section.bytes.size();
    section.bytes.resize(
        static_cast<std::size_t>(std::min({have + section_piece / 16, size, most})));
    stream.next_out = reinterpret_cast<Bytef*>(section.bytes.data() + have);
    stream.avail_out = static_cast<uInt>(section.bytes.size() - have);
    state = inflate(&stream, Z_NO_FLUSH);
    section.bytes.resize(section.bytes.size() - stream.avail_out);
    if (section.bytes.size() == have && state == Z_OK) break;
  }
  inflateEnd(&stream);
  if (state != Z_OK && state != Z_STREAM_END && section.bytes.empty())
    return fail(ErrorCode::malformed, "zlib cannot decompress it");
  if (section.bytes.size() < size)
    section.problem = section.bytes.size() == most
                          ? cut_at(most, size)
                          : fmt::format("decompressed, it has {} bytes instead of {}",
                                        section.bytes.size(), size);
  return section;
}

Result<SectionBytes> read_compressed(Memory& file, const File& elf, const Section& section,
                                     std::uint64_t most) {
  const auto packed = content_of(file, section, most);
  const std::size_t header = elf.encoding.wide ? sizeof(Elf64_Chdr) : sizeof(Elf32_Chdr);
  if (packed.size() < header)
    return fail(ErrorCode::malformed, "it is compressed, but shorter than its compression header");
  const std::uint32_t type = elf.encoding.u32(packed.data());
  if (type != compress_zlib)
    return fail(ErrorCode::unsupported,
                fmt::format("it is compressed by method {}; only zlib (1) is supported", type));
  const std::size_t at =
      elf.encoding.wide ? offsetof(Elf64_Chdr, ch_size) : offsetof(Elf32_Chdr, ch_size);
  return unpack(std::span(packed).subspan(header), elf.encoding.address(packed.data() + at), most);
}

}  // namespace

Result<SectionBytes> read_section(Memory& file, const File& elf, const Section& section,
                                  std::uint64_t most) {
  if (section.type == SHT_NOBITS)
    return fail(ErrorCode::malformed, "it has no content in this file");
  if ((section.flags & SHF_COMPRESSED) != 0) return read_compressed(file, elf, section, most);
  SectionBytes read;
  read.bytes = content_of(file, section, most);
  if (read.bytes.size() == section.size) return read;
  read.problem = read.bytes.size() == most ? cut_at(most, section.size)
                                           : fmt::format("the file ends after {} of its {} bytes",
                                                         read.bytes.size(), section.size);
  return read;
}

}  // namespace vitrine::elf
