// WatchedMemory: bytes of a target that something was derived from.
#pragma once

#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/memory.hpp"

namespace vitrine::target {

/// Remembers places and what was there; tells, by one batched read, whether any of it has changed.
class WatchedMemory {
 public:
  void add(Address address, std::span<const std::byte> bytes);

  template <class T>
  void add_value(Address address, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    add(address, std::as_bytes(std::span(&value, 1)));
  }

  void add_all(const WatchedMemory& other);

  /// True, too, when a place cannot be read any more.
  [[nodiscard]] bool changed(Memory& memory) const;

  [[nodiscard]] bool empty() const { return places_.empty(); }
  void clear();

 private:
  std::vector<std::pair<Address, std::size_t>> places_;  ///< address and size
  std::vector<std::byte> bytes_;                         ///< of all places, one after the other
};

}  // namespace vitrine::target
