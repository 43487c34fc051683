#include "symbol/mini_debug.hpp"

#include <elf.h>
#include <lzma.h>

#include "base/byte_memory.hpp"
#include "elf/section_bytes.hpp"

namespace vitrine::symbol {
namespace {

constexpr std::size_t most_unpacked = 128U << 20;  // packed or not, and of liblzma's own memory

Result<std::vector<std::byte>> unpacked(std::span<const std::byte> packed) {
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_decoder(&stream, most_unpacked, 0) != LZMA_OK)
    return fail(ErrorCode::failed, "cannot start liblzma");
  std::vector<std::byte> out;
  stream.next_in = reinterpret_cast<const std::uint8_t*>(packed.data());
  stream.avail_in = packed.size();
  lzma_ret state = LZMA_OK;
  while (state == LZMA_OK && out.size() < most_unpacked) {
    const std::size_t have = out.size();
    out.resize(have + (1U << 20));
    stream.next_out = reinterpret_cast<std::uint8_t*>(out.data() + have);
    stream.avail_out = out.size() - have;
    state = lzma_code(&stream, LZMA_FINISH);
    out.resize(out.size() - stream.avail_out);
  }
  lzma_end(&stream);
  if (state == LZMA_STREAM_END) return out;
  return fail(
      state == LZMA_OK || state == LZMA_MEMLIMIT_ERROR ? ErrorCode::limit : ErrorCode::malformed,
      "its .gnu_debugdata cannot be decompressed");
}

}  // namespace

Result<FunctionSymbols> mini_debug_symbols(Memory& file, const elf::File& elf) {
  const elf::Section* section = elf.find(".gnu_debugdata");
  if (section == nullptr) return fail(ErrorCode::not_found, "the file has no .gnu_debugdata");
  const auto packed = TRY(elf::read_section(file, elf, *section, most_unpacked));
  auto bytes = TRY(unpacked(packed.bytes));
  ByteMemory inner(std::move(bytes));
  const auto its_elf = TRY(elf::read_file(inner));
  return FunctionSymbols::read(inner, its_elf, SHT_SYMTAB);
}

}  // namespace vitrine::symbol
