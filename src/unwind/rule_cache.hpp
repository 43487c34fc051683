// RuleCache: the rules of the code addresses that stacks of a process go through.
#pragma once

#include <vector>

#include "unwind/frame.hpp"
#include "unwind/rule.hpp"

namespace vitrine::unwind {

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

}  // namespace vitrine::unwind
