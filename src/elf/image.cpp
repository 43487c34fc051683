#include "elf/image.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <vector>

#include "base/limits.hpp"
#include "elf/file.hpp"

namespace vitrine::elf {
namespace {

constexpr std::uint64_t page_bytes = 4096;
constexpr std::uint64_t tls_alignment_max = 1ULL << 30;
constexpr std::uint64_t tls_size_max = 1ULL << 40;

Result<std::vector<Elf64_Phdr>> read_segments(Memory& memory, Address at, std::uint64_t count) {
  if (count == 0 || count > limits::program_headers)
    return fail(ErrorCode::limit, fmt::format("{} program headers at {:#x}", count, at));
  std::vector<Elf64_Phdr> segments(static_cast<std::size_t>(count));
  TRY(memory.read_exact(at, std::as_writable_bytes(std::span(segments)), "the program headers"));
  return segments;
}

}  // namespace

const Elf64_Phdr* Image::find(std::uint32_t type) const {
  const auto found = std::find_if(segments.begin(), segments.end(), [&](const Elf64_Phdr& segment) {
    return segment.p_type == type;
  });
  return found == segments.end() ? nullptr : &*found;
}

std::uint64_t Image::held_from(Address address) const {
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_LOAD) continue;
    const std::uint64_t inside = address - (bias + segment.p_vaddr);  // huge when below
    if (inside < segment.p_memsz) return segment.p_memsz - inside;
  }
  return 0;
}

bool Image::holds(Address address, std::uint64_t size) const {
  return size > 0 && held_from(address) >= size;
}

Result<Elf64_Ehdr> read_header(Memory& memory, Address at) {
  const auto header = TRY(memory.read_value<Elf64_Ehdr>(at, "the ELF header"));
  const auto refuse = [&](ErrorCode code, const std::string& reason) {
    return fail(code, fmt::format("the module at {:#x} {}", at, reason));
  };
  const unsigned char* ident = header.e_ident;
  if (std::memcmp(ident, ELFMAG, SELFMAG) != 0)
    return refuse(ErrorCode::malformed, "is not an ELF file");
  if (ident[EI_CLASS] != ELFCLASS64)
    return refuse(ErrorCode::unsupported, "is a 32-bit ELF file; only 64-bit ones are read");
  if (ident[EI_DATA] != ELFDATA2LSB)
    return refuse(ErrorCode::unsupported, "is big-endian; only little-endian is read");
  if (header.e_machine != EM_X86_64 && header.e_machine != EM_AARCH64)
    return refuse(ErrorCode::unsupported,
                  fmt::format("is for machine {}; only x86-64 (62) and aarch64 (183) are read",
                              header.e_machine));
  if (header.e_phnum > 0 && header.e_phentsize != sizeof(Elf64_Phdr))
    return refuse(ErrorCode::malformed, fmt::format("has program headers of {} bytes instead of {}",
                                                    header.e_phentsize, sizeof(Elf64_Phdr)));
  return header;
}

Result<Image> read_image(Memory& memory, Address at) {
  const auto header = TRY(read_header(memory, at));
  auto segments = TRY(read_segments(memory, at + header.e_phoff, header.e_phnum));
  Image image{0, std::move(segments), at + header.e_phoff};
  const Elf64_Phdr* first = image.find(PT_LOAD);
  if (first == nullptr)
    return fail(ErrorCode::malformed,
                fmt::format("the module at {:#x} has no loadable segment", at));
  image.bias = at - (first->p_vaddr - first->p_offset);
  return image;
}

Result<Image> read_image_by_headers(Memory& memory, Address at, std::uint64_t count) {
  auto segments = TRY(read_segments(memory, at, count));
  Image image{0, std::move(segments), at};
  if (const Elf64_Phdr* self = image.find(PT_PHDR)) {
    image.bias = at - self->p_vaddr;
    return image;
  }
  // The headers are at the start of the file and of its first segment. A program linked to a fixed
  // address has it in p_vaddr; else the first segment is at 0 and the headers' page is the bias.
  const Elf64_Phdr* first = image.find(PT_LOAD);
  if (first == nullptr)
    return fail(ErrorCode::malformed,
                fmt::format("the program headers at {:#x} have no loadable segment", at));
  image.bias = (at - first->p_vaddr) / page_bytes * page_bytes;
  if (at - first->p_vaddr < first->p_memsz) image.bias = 0;
  return image;
}

Result<std::optional<TlsSegment>> tls_segment(const Image& image) {
  const Elf64_Phdr* segment = image.find(PT_TLS);
  if (segment == nullptr) return std::nullopt;
  const TlsSegment tls{segment->p_vaddr, segment->p_memsz,
                       std::max<std::uint64_t>(segment->p_align, 1)};
  if (!std::has_single_bit(tls.alignment) || tls.alignment > tls_alignment_max)
    return fail(ErrorCode::malformed, fmt::format("PT_TLS has the alignment {}", tls.alignment));
  if (tls.size > tls_size_max)
    return fail(ErrorCode::malformed, fmt::format("PT_TLS has the size {}", tls.size));
  return tls;
}

std::optional<std::string> interpreter(Memory& memory, const Image& image) {
  const Elf64_Phdr* segment = image.find(PT_INTERP);
  if (segment == nullptr) return std::nullopt;
  auto path = read_string(memory, image.bias + segment->p_vaddr, limits::name_bytes, "PT_INTERP");
  return path ? std::optional(std::move(*path)) : std::nullopt;
}

Result<std::string> read_string(Memory& memory, Address at, std::size_t limit, const char* what) {
  std::string text;
  std::array<char, 128> chunk;
  while (text.size() < limit) {
    const std::size_t want = std::min(chunk.size(), limit - text.size());
    const std::size_t got =
        memory.read_some(at + text.size(), std::as_writable_bytes(std::span(chunk).first(want)));
    const char* end = std::find(chunk.data(), chunk.data() + got, '\0');
    text.append(chunk.data(), static_cast<std::size_t>(end - chunk.data()));
    if (end != chunk.data() + got) return text;
    if (got < want)
      return fail(ErrorCode::malformed, fmt::format("{} at {:#x} is not readable", what, at));
  }
  return fail(ErrorCode::malformed,
              fmt::format("{} at {:#x} does not end within {} bytes", what, at, limit));
}

void LoadedFile::read(std::span<ReadRequest> requests) {
  for (ReadRequest& request : requests) {
    request.got = 0;
    while (!request.complete()) {
      const std::size_t more =
          copy(request.address + request.got, request.into.subspan(request.got));
      if (more == 0) break;
      request.got += more;
    }
  }
}

/// What one segment has of the bytes at `address`.
std::size_t LoadedFile::copy(Address address, std::span<std::byte> into) {
  for (const Segment& segment : elf_.segments) {
    if (segment.type != PT_LOAD || address < segment.address) continue;
    const std::uint64_t skip = address - segment.address;
    if (skip >= segment.memory_size) continue;
    const auto part = into.first(
        static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), segment.memory_size - skip)));
    if (skip >= segment.file_size) {
      std::ranges::fill(part, std::byte{});
      return part.size();
    }
    return file_.read_some(segment.offset + skip,
                           part.first(static_cast<std::size_t>(
                               std::min<std::uint64_t>(part.size(), segment.file_size - skip))));
  }
  return 0;
}

Result<Image> LoadedFile::image() const {
  if (!elf_.encoding.wide || elf_.encoding.big_endian)
    return fail(ErrorCode::unsupported,
                fmt::format("it is a {}-bit {}-endian file", elf_.encoding.wide ? 64 : 32,
                            elf_.encoding.big_endian ? "big" : "little"));
  if (elf_.machine != EM_X86_64 && elf_.machine != EM_AARCH64)
    return fail(ErrorCode::unsupported,
                fmt::format("it is for machine {}, neither x86-64 nor aarch64", elf_.machine));
  if (elf_.segments.size() > limits::program_headers)
    return fail(ErrorCode::limit, fmt::format("it has {} program headers", elf_.segments.size()));
  Image image;
  for (const Segment& one : elf_.segments) {
    Elf64_Phdr raw{};
    raw.p_type = one.type;
    raw.p_flags = one.flags;
    raw.p_offset = one.offset;
    raw.p_vaddr = raw.p_paddr = one.address;
    raw.p_filesz = one.file_size;
    raw.p_memsz = one.memory_size;
    raw.p_align = one.alignment;
    image.segments.push_back(raw);
  }
  return image;
}

namespace {

constexpr std::size_t entries_max = 4096;

// The last entry of each tag we use wins, as in the dynamic linkers.
using Entries = std::map<std::int64_t, std::uint64_t>;

Result<Entries> read_entries(Memory& memory, const Image& image) {
  const Elf64_Phdr* segment = image.find(PT_DYNAMIC);
  if (segment == nullptr) return fail(ErrorCode::not_found, "the module has no dynamic section");
  const Address at = image.bias + segment->p_vaddr;
  const std::size_t count = static_cast<std::size_t>(
      std::min<std::uint64_t>(segment->p_memsz / sizeof(Elf64_Dyn), entries_max));
  std::vector<Elf64_Dyn> raw(count);
  const std::size_t got =
      memory.read_some(at, std::as_writable_bytes(std::span(raw))) / sizeof(Elf64_Dyn);
  if (got == 0)
    return fail(ErrorCode::malformed, fmt::format("no dynamic section is readable at {:#x}", at));
  Entries entries;
  for (std::size_t i = 0; i < got && raw[i].d_tag != DT_NULL; ++i)
    entries[raw[i].d_tag] = raw[i].d_un.d_val;
  return entries;
}

class Tables {
 public:
  Tables(const Image& image, const Entries& entries) : image_(image), entries_(entries) {}

  std::optional<std::uint64_t> value(std::int64_t tag) const {
    const auto entry = entries_.find(tag);
    return entry == entries_.end() ? std::nullopt : std::optional(entry->second);
  }

  Table table(std::int64_t tag, std::int64_t size_tag = DT_NULL) const {
    const auto pointer = value(tag);
    if (!pointer) return {};
    // Not yet relocated, as a rule, when it is below the bias; what decides is where it leads.
    Address address = *pointer;
    if (address < image_.bias || image_.held_from(address) == 0) address += image_.bias;
    const std::uint64_t held = image_.held_from(address);
    const std::uint64_t size = size_tag == DT_NULL ? held : value(size_tag).value_or(0);
    if (held == 0 || size == 0) return {};
    return {address, std::min(size, held)};
  }

 private:
  const Image& image_;
  const Entries& entries_;
};

}  // namespace

Result<Dynamic> read_dynamic(Memory& memory, const Image& image) {
  const auto entries = TRY(read_entries(memory, image));
  const Tables tables(image, entries);
  Dynamic dynamic;
  dynamic.symbols = tables.table(DT_SYMTAB);
  dynamic.strings = tables.table(DT_STRTAB, DT_STRSZ);
  dynamic.gnu_hash = tables.table(DT_GNU_HASH);
  dynamic.hash = tables.table(DT_HASH);
  dynamic.rela = tables.table(DT_RELA, DT_RELASZ);
  dynamic.plt_rela = tables.table(DT_JMPREL, DT_PLTRELSZ);
  dynamic.debug = tables.value(DT_DEBUG).value_or(0);
  return dynamic;
}

namespace {

constexpr std::uint64_t dynamic_bytes = 64 * 1024;  // some 30 entries are usual

}  // namespace

std::optional<std::uint64_t> dynamic_value(Memory& file, const File& elf, std::int64_t tag) {
  const auto section = std::find_if(elf.sections.begin(), elf.sections.end(),
                                    [](const Section& one) { return one.type == SHT_DYNAMIC; });
  if (section == elf.sections.end()) return std::nullopt;
  const auto read = read_section(file, elf, *section, dynamic_bytes);
  if (!read) return std::nullopt;
  const std::size_t word = elf.encoding.address_bytes();
  for (std::size_t at = 0; at + 2 * word <= read->bytes.size(); at += 2 * word) {
    const std::uint64_t found = elf.encoding.address(read->bytes.data() + at);
    if (found == DT_NULL) break;
    if (found == static_cast<std::uint64_t>(tag))
      return elf.encoding.address(read->bytes.data() + at + word);
  }
  return std::nullopt;
}

bool is_program(Memory& file, const File& elf) {
  if (elf.type == ET_EXEC) return true;
  if (elf.type != ET_DYN) return false;
  if ((dynamic_value(file, elf, DT_FLAGS_1).value_or(0) & DF_1_PIE) != 0) return true;
  // Linkers before 2016 did not mark it. libc.so.6 has an interpreter as well, but a soname.
  const bool interpreted =
      std::any_of(elf.segments.begin(), elf.segments.end(),
                  [](const Segment& segment) { return segment.type == PT_INTERP; });
  return interpreted && !dynamic_value(file, elf, DT_SONAME);
}

}  // namespace vitrine::elf
