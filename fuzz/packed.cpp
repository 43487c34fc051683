// What a worker returns, which a hostile file may have taken over: the structures of probes.
#include "probe/packed.hpp"

#include "input.hpp"

using namespace vitrine;

namespace {

/// A value has one spelling.
template <class T>
void take(std::span<const std::byte> bytes) {
  const auto value = pack::unpack<T>(bytes);
  if (!value) return;
  const auto again = pack::pack(*value);
  fuzz::require(std::ranges::equal(again, bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = fuzz::bytes(data + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      take<Result<std::vector<probe::Probe>>>(bytes);
      break;
    case 1:
      take<Result<probe::DofFile>>(bytes);
      break;
    case 2:
      take<std::vector<tl::expected<vitrine_operand, probe::ArgumentError>>>(bytes);
      break;
    default:
      take<std::vector<std::optional<elf::Symbol>>>(bytes);
  }
  return 0;
}
