// Building sections: the bytes of a value, at the end of others.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

namespace vitrine::usdt {

template <class T>
void append(std::vector<std::byte>& bytes, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto raw = std::as_bytes(std::span(&value, 1));
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}

}  // namespace vitrine::usdt
