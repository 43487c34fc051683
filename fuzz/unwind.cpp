// A file's CFI, registers and a stack: {u8 what}{u16 size of CFI}{u16 size of the index}{CFI}{index}
// {33 registers}{stack}. what: bit 0: aarch64, bit 1: .debug_frame, bit 2: there is an index.
#include "../tests/support/cfi_image.hpp"
#include "base/limits.hpp"
#include "base/memory.hpp"
#include "input.hpp"
#include "unwind/frame_table.hpp"
#include "unwind/unwinder.hpp"

using namespace vitrine;

namespace {

constexpr Address stack_start = 0x7ff0'0000'0000;

class Input {
 public:
  explicit Input(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> take(std::size_t size) {
    const auto part = bytes_.first(std::min(size, bytes_.size()));
    bytes_ = bytes_.subspan(part.size());
    return part;
  }
  template <class T>
  T number() {
    T value{};
    const auto part = take(sizeof value);
    if (!part.empty()) std::memcpy(&value, part.data(), part.size());
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
};

/// What is told of a block is what is told of each of its addresses.
void expect_block(unwind::FrameTable& table, Address address) {
  const unwind::RuleBlock block = table.rules_around(address);
  fuzz::require(block.is_sound());
  if (const unwind::Rule* rule = block.find(address)) fuzz::require(*rule == table.rule(address));
  for (std::size_t n = 0; n < block.spans.size(); n += block.spans.size() / 32 + 1) {
    const unwind::RuleSpan& span = block.spans[n];
    const Address start = block.start + span.start;
    fuzz::require(span.rule == table.rule(start));
    fuzz::require(span.rule == table.rule(start + span.size - 1));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(fuzz::bytes(data, size));
  const auto what = input.number<std::uint8_t>();
  const auto cfi_size = input.number<std::uint16_t>(), index_size = input.number<std::uint16_t>();
  const auto cfi = input.take(cfi_size);
  const auto index = (what & 4) != 0 ? input.take(index_size) : std::span<const std::byte>{};
  const bool is_arm = (what & 1) != 0;
  auto table = unwind::FrameTable::open(std::make_unique<ByteMemory>(
      test::cfi_image(is_arm ? EM_AARCH64 : EM_X86_64,
                      (what & 2) != 0 ? ".debug_frame" : ".eh_frame", cfi, index)));
  fuzz::require(table.has_value());
  fuzz::require(unwind::bias_of((*table)->segments(), fuzz::base, 0) == fuzz::base);
  unwind::Registers registers;
  registers.machine = is_arm ? Machine::aarch64 : Machine::x86_64;
  for (std::uint64_t& word : registers.words) word = input.number<std::uint64_t>();
  expect_block(**table, registers.pc() - fuzz::base);
  const auto stack = input.take(size);
  // The CFI is read as code, too.
  for (const bool is_return : {false, true})
    fuzz::require(is_sound((*table)->rule_by_code(test::code_bytes, is_return)));
  (*table)->follows_call(test::code_bytes + 16);
  unwind::Unwinder unwinder(
      unwind::CodeMap({{fuzz::base, fuzz::base + test::code_bytes, fuzz::base, *table},
                       {0x50'0000, 0x50'1000, 0, nullptr}}));
  std::vector<unwind::Frame> first, again;
  const auto end = unwinder.unwind(registers, {stack_start, stack}, first);
  fuzz::require(!first.empty() && first.size() <= limits::frames);
  fuzz::require(first[0].pc == registers.pc() && !first[0].is_return_address);
  // What the cache says is what the file says.
  fuzz::require(unwinder.unwind(registers, {stack_start, stack}, again) == end && first == again);
  return 0;
}
