// Frames: registers of one, the code they are in, and rules kept by address.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/memory.hpp"
#include "base/pack.hpp"
#include "unwind/rule.hpp"

namespace vitrine::unwind {

// What goes into unwinding beside the registers, and what comes out.

/// A copy of the top of a thread's stack: what a sample has of it. The bytes are untrusted.
struct Stack {
  Address start = 0;  ///< the stack pointer at the sample, or below
  std::span<const std::byte> bytes;
  /// Of another stack of the thread, which a function has left for this one. Empty: none was left.
  Address left_start = 0;
  std::span<const std::byte> left_bytes{};
  /// Of each copy: pages that are not in it. Bit n: the page n after that of its start.
  std::uint32_t gaps = 0, left_gaps = 0;
  mutable Address missed = 0;  ///< the last that read() did not have; 0: none

  /// Where the copy begins that an address is in, or behind.
  [[nodiscard]] Address start_of(Address address) const {
    if (left_bytes.empty()) return start;
    return address - left_start < address - start ? left_start : start;
  }

  /// The word at an address, into `word`. False: the copies do not have it.
  bool read(Address address, std::uint64_t& word) const {
    if (gaps == 0 && copy(bytes, start, 0, address, word)) return true;
    return read_any(address, word);
  }

 private:
  /// Apart, so that what most reads need is small enough to be inlined.
  __attribute__((noinline)) bool read_any(Address address, std::uint64_t& word) const {
    if (copy(bytes, start, gaps, address, word)) return true;
    if (copy(left_bytes, left_start, left_gaps, address, word)) return true;
    missed = address;
    return false;
  }

  static bool copy(std::span<const std::byte> from, Address start, std::uint32_t gaps,
                   Address address, std::uint64_t& word) {
    const std::uint64_t at = address - start;
    if (at >= from.size() || from.size() - at < sizeof word) return false;
    constexpr Address page = 4096;
    const auto is_gap = [&](Address byte) {
      const Address number = byte / page - start / page;
      return number < 32 && (gaps >> number & 1) != 0;
    };
    if (gaps != 0 && (is_gap(address) || is_gap(address + sizeof word - 1))) return false;
    std::memcpy(&word, from.data() + at, sizeof word);
    return true;
  }
};

/// Why there are no more frames.
enum class End : std::uint8_t {
  outermost,    ///< the thread's first function: all of the stack is there
  truncated,    ///< the next frame is beyond the copy of the stack: at Stack::missed
  other_stack,  ///< a signal handler had a stack of its own: that of its caller was not copied
  no_rule,      ///< no rule for leaving the function of the last frame
  bad,          ///< the stack is invalid there: a cycle, or a return to where no code is
  limit,        ///< limits::frames
};

inline constexpr std::uint32_t no_region = ~std::uint32_t{0};

struct Frame {
  Address pc = 0;
  std::uint32_t region = no_region;  ///< position in the CodeMap; no_region: in none
  /// The pc is where a call will return to, so the call is before it. False for the innermost frame,
  /// for one that a signal interrupted, and for the trampoline that a handler returns to.
  bool is_return_address = false;

  /// An address within the instruction that the frame is at: what to look symbols up by.
  [[nodiscard]] Address lookup() const { return pc - (is_return_address ? 1 : 0); }

  bool operator==(const Frame&) const = default;
};

// The registers of a thread as the kernel's programs see them.

/// From the 64-bit words of a struct pt_regs: 21 on x86-64 (arch/x86/include/asm/ptrace.h), 34 on
/// aarch64 (struct user_pt_regs, arch/arm64/include/uapi/asm/ptrace.h); more may follow. nullopt:
/// fewer.
std::optional<Registers> from_pt_regs(Machine machine, std::span<const std::uint64_t> words);

// CodeMap: what code is at an address of a process.

/// An executable mapping.
struct Region {
  Address start = 0;
  Address end = 0;   ///< one past the last byte
  Address bias = 0;  ///< runtime address minus the file's own
  /// Null where there is no file, or none that could be read: frame pointers are all there is. Files
  /// mapped by several processes share it.
  std::shared_ptr<RuleSource> rules;
};

/// The executable mappings of a process at one time, by address.
class CodeMap {
 public:
  CodeMap() = default;
  /// In any order. Of regions that overlap, the one that starts first keeps the bytes.
  explicit CodeMap(std::vector<Region> regions);

  /// The position of the region around an address, or no_region.
  [[nodiscard]] std::uint32_t find(Address address) const;

  [[nodiscard]] const Region& operator[](std::uint32_t position) const {
    return regions_[position];
  }
  [[nodiscard]] const std::vector<Region>& regions() const { return regions_; }

 private:
  std::vector<Region> regions_;
};

// RuleCache: the rules of the code addresses that stacks of a process go through.

/// One place an address, so that a lookup is one comparison. It grows while addresses push one
/// another out, up to a MiB; then the latest wins.
class RuleCache {
 public:
  struct Entry {
    Address address = 0;  ///< 0: free; no code is there
    Rule rule;
    std::uint32_t region = no_region;
  };

  /// The entry of an address, or null.
  [[nodiscard]] const Entry* find(Address address) const {
    const Entry& entry = entries_[place(address)];
    return entry.address == address ? &entry : nullptr;
  }

  void insert(const Entry& entry) {
    Entry& at = entries_[place(entry.address)];
    if (at.address != 0 && ++pushed_out_ > entries_.size() / 4 && shift_ > lowest_shift) {
      grow();
      return insert(entry);
    }
    at = entry;
  }

  void clear() { entries_.assign(entries_.size(), Entry{}); }

 private:
  static constexpr unsigned first_shift = 64 - 8, lowest_shift = 64 - 15;

  /// Addresses differ in few bits: the multiplication spreads them (Fibonacci hashing).
  [[nodiscard]] std::size_t place(Address address) const {
    return static_cast<std::size_t>((address * 0x9e37'79b9'7f4a'7c15ULL) >> shift_);
  }

  void grow() {
    --shift_;
    pushed_out_ = 0;
    std::vector<Entry> old(2 * entries_.size());
    old.swap(entries_);
    for (const Entry& entry : old)
      if (entry.address != 0) entries_[place(entry.address)] = entry;
  }

  unsigned shift_ = first_shift;
  std::size_t pushed_out_ = 0;
  std::vector<Entry> entries_ = std::vector<Entry>(std::size_t{1} << (64 - first_shift));
};

// Structures of this layer as base/pack.hpp has them.

constexpr RegisterRule::Kind last(RegisterRule::Kind) {
  return RegisterRule::Kind::expression;
}
constexpr Rule::Form last(Rule::Form) {
  return Rule::Form::switched;
}
constexpr Rule::Source last(Rule::Source) {
  return Rule::Source::lost;
}

template <pack::Of<RegisterRule> T>
auto fields(T& rule) {
  auto& [kind, size, value] = rule;
  return std::tie(kind, size, value);
}

template <pack::Of<Row> T>
auto fields(T& row) {
  auto& [cfa, cfa_offset, registers, is_signal, changes_stack, expressions] = row;
  return std::tie(cfa, cfa_offset, registers, is_signal, changes_stack, expressions);
}

template <pack::Of<Rule> T>
auto fields(T& rule) {
  auto& [form, cfa_register, frame_pointer, return_address, cfa_offset, frame_pointer_offset,
         return_address_offset] = rule;
  return std::tie(form, cfa_register, frame_pointer, return_address, cfa_offset,
                  frame_pointer_offset, return_address_offset);
}

template <pack::Of<RuleSpan> T>
auto fields(T& span) {
  auto& [start, size, rule] = span;
  return std::tie(start, size, rule);
}

template <pack::Of<RuleBlock> T>
auto fields(T& block) {
  auto& [start, end, spans] = block;
  return std::tie(start, end, spans);
}

}  // namespace vitrine::unwind
