#include "base/memory.hpp"

#include <fmt/format.h>

namespace vitrine {

Result<void> Memory::read_exact(Address address, std::span<std::byte> into, const char* what) {
  const std::size_t got = read_some(address, into);
  if (got == into.size()) return {};
  return fail(ErrorCode::malformed, fmt::format("{}: {} bytes at {:#x} are not readable ({} are)",
                                                what, into.size(), address, got));
}

std::string hex(std::uint64_t value) {
  return fmt::format("{:#x}", value);
}

}  // namespace vitrine
