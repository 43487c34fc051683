#include "unwind/frame.hpp"

#include <algorithm>

namespace vitrine::unwind {
namespace {

/// By DWARF number, the position in pt_regs: r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi
/// rdi orig_rax rip cs eflags rsp ss.
constexpr std::array<std::size_t, 17> x86_64_words{10, 12, 11, 5, 13, 14, 4, 19, 9,
                                                   8,  7,  6,  3, 2,  1,  0, 16};
constexpr std::size_t x86_64_count = 21;
/// x0 to x30, sp and pc are in the order of DWARF; pstate follows.
constexpr std::size_t aarch64_count = 34;

}  // namespace

std::optional<Registers> from_pt_regs(Machine machine, std::span<const std::uint64_t> words) {
  Registers registers{machine, {}};
  if (machine == Machine::aarch64) {
    if (words.size() < aarch64_count) return std::nullopt;
    std::copy_n(words.begin(), registers.words.size(), registers.words.begin());
    return registers;
  }
  if (words.size() < x86_64_count) return std::nullopt;
  for (std::size_t n = 0; n < x86_64_words.size(); ++n) registers.words[n] = words[x86_64_words[n]];
  return registers;
}

CodeMap::CodeMap(std::vector<Region> regions) {
  std::stable_sort(regions.begin(), regions.end(),
                   [](const Region& a, const Region& b) { return a.start < b.start; });
  Address end = 0;
  for (Region& region : regions) {
    region.start = std::max(region.start, end);
    if (region.start >= region.end) continue;
    end = region.end;
    regions_.push_back(std::move(region));
  }
}

std::uint32_t CodeMap::find(Address address) const {
  const auto after =
      std::upper_bound(regions_.begin(), regions_.end(), address,
                       [](Address wanted, const Region& region) { return wanted < region.start; });
  if (after == regions_.begin() || address >= std::prev(after)->end) return no_region;
  return static_cast<std::uint32_t>(std::prev(after) - regions_.begin());
}

}  // namespace vitrine::unwind
