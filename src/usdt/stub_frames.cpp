#include "usdt/stub_frames.hpp"

#include <cstring>
#include <span>

#include "usdt/append.hpp"

namespace vitrine::usdt {
namespace {

constexpr std::uint8_t encoding = 0x1b;  // DW_EH_PE_pcrel | DW_EH_PE_sdata4

/// From the alignment factors on to the rules at a function's first instruction, which here hold to
/// its last: where the caller's frame is (DW_CFA_def_cfa) and, on x86, the return address in it.
std::span<const std::uint8_t> rules(const ObjectMachine& machine) {
  static constexpr std::uint8_t x86_64[] = {1, 0x78, 16, 1, encoding, 0x0c, 7, 8, 0x90, 1};
  static constexpr std::uint8_t i386[] = {1, 0x7c, 8, 1, encoding, 0x0c, 4, 4, 0x88, 1};
  static constexpr std::uint8_t aarch64[] = {4, 0x78, 30, 1, encoding, 0x0c, 31, 0};
  switch (machine.machine) {
    case Machine::x86_64:
      return x86_64;
    case Machine::i386:
      return i386;
    case Machine::aarch64:
      return aarch64;
    default:
      return {};
  }
}

}  // namespace

StubFrames::StubFrames(const ObjectMachine& machine) : machine_(machine) {
  static constexpr std::uint8_t version_and_augmentation[] = {1, 'z', 'R', 0};
  begin();
  append(bytes_, std::uint32_t{0});  // a CIE
  append(bytes_, version_and_augmentation);
  for (const std::uint8_t one : rules(machine)) append(bytes_, one);
  end();
}

std::uint64_t StubFrames::add(std::uint32_t size) {
  begin();
  append(bytes_, static_cast<std::uint32_t>(bytes_.size()));  // back to the CIE, the first entry
  const std::uint64_t function = bytes_.size();
  append(bytes_, std::uint32_t{0});
  append(bytes_, size);
  append(bytes_, std::uint8_t{0});  // no augmentation data
  end();
  return function;
}

void StubFrames::begin() {
  entry_ = bytes_.size();
  append(bytes_, std::uint32_t{0});  // the length, once it is known
}

void StubFrames::end() {
  const std::size_t to = alignment();
  bytes_.resize((bytes_.size() + to - 1) / to * to);  // DW_CFA_nop is 0
  const auto length = static_cast<std::uint32_t>(bytes_.size() - entry_ - sizeof(std::uint32_t));
  std::memcpy(&bytes_[entry_], &length, sizeof length);
}

}  // namespace vitrine::usdt
