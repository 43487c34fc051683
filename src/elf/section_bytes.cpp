#include "elf/section_bytes.hpp"

#include <elf.h>
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <span>

namespace vitrine::elf {
namespace {

/// A section that lies about its size costs no more than one of these beyond what the file has.
constexpr std::uint64_t bytes_per_read = 4ULL << 20;
constexpr std::uint32_t compress_zlib = 1;  // ELFCOMPRESS_ZLIB

std::vector<std::byte> read_in_pieces(Memory& file, std::uint64_t at, std::uint64_t size) {
  std::vector<std::byte> bytes;
  while (bytes.size() < size) {
    const std::size_t have = bytes.size();
    const auto want = static_cast<std::size_t>(std::min(bytes_per_read, size - have));
    bytes.resize(have + want);
    const std::size_t got = file.read_some(at + have, std::span(bytes).subspan(have));
    bytes.resize(have + got);
    if (got < want) break;
  }
  return bytes;
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
        static_cast<std::size_t>(std::min({have + bytes_per_read / 16, size, most})));
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
  const auto packed = read_in_pieces(file, section.offset, std::min(section.size, most));
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
  read.bytes = read_in_pieces(file, section.offset, std::min(section.size, most));
  if (read.bytes.size() == section.size) return read;
  read.problem = read.bytes.size() == most ? cut_at(most, section.size)
                                           : fmt::format("the file ends after {} of its {} bytes",
                                                         read.bytes.size(), section.size);
  return read;
}

}  // namespace vitrine::elf
