#include "format/key_map.hpp"

#include <fmt/format.h>

#include "abi/thread_context.hpp"
#include "base/limits.hpp"

namespace vitrine::format {
namespace {

constexpr std::size_t table_max = limits::key_map_entries * (1 + 255);  // {u8 length, name} each

}  // namespace

Result<KeyMap> read_key_table(Memory& memory, Address reference, Address address_mask) {
  using abi::thread_context::DraftReference;
  auto head = TRY(memory.read_value<DraftReference>(reference & address_mask, "draft A reference"));
  if (head.schema_version != 1)
    return fail(ErrorCode::unsupported,
                fmt::format("draft A reference: unknown schema version {}; version 1 is supported",
                            head.schema_version));
  const Address table = head.key_table & address_mask;
  const auto size = TRY(memory.read_value<std::uint32_t>(table, "draft A key table"));

  std::vector<std::byte> bytes(std::min<std::size_t>(size, table_max));
  bytes.resize(memory.read_some(table + sizeof size, bytes));
  KeyMap map;
  for (std::size_t at = 0; at < bytes.size() && map.names.size() < limits::key_map_entries;) {
    const auto length = std::to_integer<std::size_t>(bytes[at]);
    if (bytes.size() - at - 1 < length) break;
    map.names.emplace_back(std::in_place, reinterpret_cast<const char*>(bytes.data()) + at + 1,
                           length);
    at += 1 + length;
  }
  return map;
}

}  // namespace vitrine::format
