#include "elf/image.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/limits.hpp"

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

}  // namespace vitrine::elf
