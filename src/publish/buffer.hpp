// Buffer: bytes on the heap for the publishing side, which throws nothing and never ends the program.
// When memory runs out the buffer stays as it is and is no longer ok(); it ignores what is appended
// from then on. So a chain of appends needs one check, at its end.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace vitrine::publish {

class Buffer {
 public:
  constexpr Buffer() noexcept = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { std::free(data_); }

  [[nodiscard]] bool ok() const noexcept { return ok_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] char* data() noexcept { return data_; }
  [[nodiscard]] const char* data() const noexcept { return data_; }
  [[nodiscard]] std::string_view view() const noexcept { return {data_, size_}; }

  void append(std::string_view bytes) noexcept { insert(size_, bytes); }
  void append(char byte) noexcept { insert(size_, {&byte, 1}); }

  /// `bytes` are not part of this buffer.
  void insert(std::size_t at, std::string_view bytes) noexcept {
    if (bytes.empty() || !reserve(bytes.size())) return;
    std::memmove(data_ + at + bytes.size(), data_ + at, size_ - at);
    std::memcpy(data_ + at, bytes.data(), bytes.size());
    size_ += bytes.size();
  }

  void erase(std::size_t at, std::size_t count) noexcept {
    if (count == 0) return;
    std::memmove(data_ + at, data_ + at + count, size_ - at - count);
    size_ -= count;
  }

  /// Back to `size` bytes, and ok() again: what was appended since is undone.
  void truncate(std::size_t size) noexcept {
    size_ = size;
    ok_ = true;
  }

  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    std::swap(ok_, other.ok_);
  }

 private:
  bool reserve(std::size_t more) noexcept {
    if (!ok_) return false;
    if (more <= capacity_ - size_) return true;
    constexpr std::size_t most = static_cast<std::size_t>(-1) / 4;
    constexpr std::size_t least = 256;
    std::size_t capacity = capacity_ < least ? least : capacity_ * 2;
    if (capacity < size_ + more) capacity = size_ + more;
    void* memory = more > most || size_ > most ? nullptr : std::realloc(data_, capacity);
    if (memory == nullptr) return ok_ = false;
    data_ = static_cast<char*>(memory);
    capacity_ = capacity;
    return true;
  }

  char* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
  bool ok_ = true;
};

}  // namespace vitrine::publish
