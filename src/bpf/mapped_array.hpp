// MappedArray: the values of a BPF array that vitrine's programs and this process have mapped together.
#pragma once

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "base/result.hpp"

namespace vitrine::bpf {

/// Until this ends. The map has BPF_F_MMAPABLE.
template <class Value>
class MappedArray {
 public:
  /// `what` the values are, for errors. Errors: failed.
  static Result<MappedArray> open(int map, std::size_t count, const char* what) {
    void* mapped =
        ::mmap(nullptr, count * sizeof(Value), PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);
    if (mapped == MAP_FAILED)
      return fail(ErrorCode::failed, fmt::format("cannot map {}: {}", what, std::strerror(errno)));
    return MappedArray(std::span(static_cast<Value*>(mapped), count));
  }
  MappedArray(MappedArray&& other) noexcept : values_(std::exchange(other.values_, {})) {}
  MappedArray& operator=(MappedArray&&) = delete;
  ~MappedArray() {
    if (!values_.empty()) ::munmap(values_.data(), values_.size_bytes());
  }

  [[nodiscard]] std::span<Value> values() const { return values_; }

 private:
  explicit MappedArray(std::span<Value> values) : values_(values) {}

  std::span<Value> values_;
};

}  // namespace vitrine::bpf
