#include "elf/relocations.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/limits.hpp"

namespace vitrine::elf {
namespace {

constexpr std::size_t relocations_per_read = 2048;
constexpr std::size_t found_max = 64 * 1024;

Result<void> scan(Memory& memory, const Image& image, const Table& table,
                  std::span<const std::uint32_t> types, std::vector<Relocation>& found) {
  const std::uint64_t count = table.size / sizeof(Elf64_Rela);
  if (count > limits::relocations)
    return fail(ErrorCode::limit, fmt::format("{} relocations at {:#x}", count, table.address));
  std::vector<Elf64_Rela> chunk(relocations_per_read);
  for (std::uint64_t first = 0; first < count; first += relocations_per_read) {
    const auto part = std::span(chunk).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(relocations_per_read, count - first)));
    const Address at = table.address + first * sizeof(Elf64_Rela);
    TRY(memory.read_exact(at, std::as_writable_bytes(part), "relocations"));
    for (const Elf64_Rela& raw : part) {
      const auto type = static_cast<std::uint32_t>(ELF64_R_TYPE(raw.r_info));
      const Address where = image.bias + raw.r_offset;
      if (std::find(types.begin(), types.end(), type) == types.end() || !image.holds(where, 8))
        continue;
      if (found.size() == found_max)
        return fail(ErrorCode::limit, fmt::format("more than {} relevant relocations", found_max));
      found.push_back(
          {where, type, static_cast<std::uint32_t>(ELF64_R_SYM(raw.r_info)), raw.r_addend});
    }
  }
  return {};
}

}  // namespace

Result<std::vector<Relocation>> find_relocations(Memory& memory, const Image& image,
                                                 const Dynamic& dynamic,
                                                 std::span<const std::uint32_t> types) {
  std::vector<Relocation> found;
  for (const Table& table : {dynamic.rela, dynamic.plt_rela})
    TRY(scan(memory, image, table, types, found));
  return found;
}

}  // namespace vitrine::elf
