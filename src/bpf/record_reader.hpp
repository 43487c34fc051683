// RecordReader: takes a record of a ring buffer apart from its front.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "bpf/moment.hpp"

namespace vitrine::bpf {

class RecordReader {
 public:
  explicit RecordReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  /// The error of a record that is too short for what it tells of.
  static tl::unexpected<Error> ends_early() {
    return fail(ErrorCode::malformed, "a record from the kernel ends too early");
  }

  template <class T>
  bool take(T& value) {
    if (bytes_.size() < sizeof value) return false;
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_ = bytes_.subspan(sizeof value);
    return true;
  }

  /// `length` bytes, and what pads them to a multiple of 8.
  bool take_bytes(std::size_t length, std::span<const std::byte>& taken) {
    if (length > bytes_.size()) return false;
    taken = bytes_.first(length);
    bytes_ = bytes_.subspan(std::min((length + 7) & ~std::size_t{7}, bytes_.size()));
    return true;
  }

  /// Numbers, `bytes` of them together.
  bool take_words(std::size_t bytes, std::vector<std::uint64_t>& words) {
    std::span<const std::byte> taken;
    if (!take_bytes(bytes, taken)) return false;
    words.resize(taken.size() / sizeof(std::uint64_t));
    if (!words.empty())
      std::memcpy(words.data(), taken.data(), words.size() * sizeof(std::uint64_t));
    return true;
  }

  /// As many label sets as `sets` has. Error: malformed.
  Result<void> take_sets(std::span<FireSet> sets);

  [[nodiscard]] bool empty() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace vitrine::bpf
