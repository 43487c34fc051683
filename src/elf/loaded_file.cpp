#include "elf/loaded_file.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/limits.hpp"

namespace vitrine::elf {

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

}  // namespace vitrine::elf
