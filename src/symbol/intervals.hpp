// Intervals: which of many address ranges, that may nest and overlap, an address belongs to.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/memory.hpp"

namespace vitrine::symbol {

class Intervals {
 public:
  /// [start, end) belongs to `value`, where no other has a higher priority. Of equal ones the one
  /// that begins last has it, then the one added last.
  void add(Address start, Address end, std::uint32_t value, std::uint64_t priority);

  /// To be called once, after everything has been added.
  void build();

  [[nodiscard]] std::optional<std::uint32_t> find(Address address) const;
  [[nodiscard]] std::size_t size() const { return added_.size() + pieces_.size(); }

 private:
  struct Added {
    Address start = 0, end = 0;
    std::uint64_t priority = 0;
    std::uint32_t value = 0;
  };
  struct Piece {
    Address start = 0, end = 0;
    std::uint32_t value = 0;
  };
  std::vector<Added> added_;   ///< empty once built
  std::vector<Piece> pieces_;  ///< disjoint, ascending
};

}  // namespace vitrine::symbol
