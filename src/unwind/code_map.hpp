// CodeMap: what code is at an address of a process.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "unwind/frame.hpp"
#include "unwind/rule_source.hpp"

namespace vitrine::unwind {

/// An executable mapping.
struct Region {
  Address start = 0;
  Address end = 0;   ///< one past the last byte
  Address bias = 0;  ///< runtime address minus the file's own
  /// Null where there is no file, or none that could be read: frame pointers are all there is. Files
  /// mapped by several processes share it.
  std::shared_ptr<RuleSource> rules;
};

/// The executable mappings of a process at one moment, by address.
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

}  // namespace vitrine::unwind
