// What symbols are made of and is ours to parse: Rust names, maps of JIT compilers, the kernel's
// symbols, and what a worker says, which a hostile file may have taken over.
#include "base/limits.hpp"
#include "input.hpp"
#include "symbol/demangle.hpp"
#include "symbol/jit_symbols.hpp"
#include "symbol/kernel_symbols.hpp"
#include "symbol/symboliser.hpp"

using namespace vitrine;

namespace {

void names(std::string_view text) {
  for (const auto& name : {symbol::rust_name(text), symbol::legacy_rust_name(text)})
    if (name) fuzz::require(name->size() <= limits::demangled_bytes + text.size());
}

void perf_map(std::string_view text) {
  symbol::PerfMap map;
  const std::size_t half = text.size() / 2;
  map.add(text.substr(0, half));
  fuzz::require(map.taken() <= half);
  map.add(text.substr(static_cast<std::size_t>(map.taken())));
  fuzz::require(map.taken() <= text.size());
  for (const Address address : {0x1000ULL, 0x1020ULL, 0x2000ULL, ~0ULL})
    if (const auto found = map.find(address)) fuzz::require(found->start <= address);
}

void kernel(std::string_view text) {
  const auto symbols = symbol::KernelSymbols::parse(text);
  if (!symbols) return;
  for (const Address address : {0xffffffff81000000ULL, 0xffffffffc0000010ULL, ~0ULL})
    if (const auto found = symbols->find(address)) fuzz::require(found->start <= address);
}

void reply(std::span<const std::byte> bytes, std::size_t addresses) {
  const auto got = symbol::decode_response(bytes, addresses, {});
  if (!got) return;
  fuzz::require(got->frames.size() == addresses);
  const auto again = symbol::decode_response(symbol::encode_response(*got), addresses, {});
  fuzz::require(again && again->frames == got->frames);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      names(text);
      break;
    case 1:
      perf_map(text);
      break;
    case 2:
      kernel(text);
      break;
    default:
      reply(fuzz::bytes(data + 1, size - 1), data[0] / 4 % 8);
  }
  return 0;
}
