// What the readers of object files share: numbers at offsets, and how a broken file is told.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>

#include "base/result.hpp"

namespace vitrine::usdt {

/// The caller has checked that the bytes are there.
template <class T>
T at(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

inline tl::unexpected<Error> malformed(std::string message) {
  return fail(ErrorCode::malformed, std::move(message),
              "recompile it; if that does not help, the tool that wrote it is at fault");
}

}  // namespace vitrine::usdt
