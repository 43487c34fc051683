// The protobuf encoding of a process context: exactly the messages of that format, no more.
// Source: docs/formats/process-context.md, "Payload".
//
// Attributes are kept in their encoded form: one buffer holds all of a list, so what can fail is one
// allocation, and a list is shown as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "vitrine/context.hpp"

namespace vitrine::publish {

// Buffer: bytes on the heap for the publishing side, which throws nothing and never ends the program.
// When memory runs out the buffer stays as it is and is no longer ok(); it ignores what is appended
// from then on. So a chain of appends needs one check, at its end.

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
    if (at != size_) std::memmove(data_ + at + bytes.size(), data_ + at, size_ - at);
    // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): reserve() has allocated it
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

namespace vitrine::context {

using publish::Buffer;

inline constexpr std::size_t string_max = 4096;      ///< bytes of a key or of one text
inline constexpr std::size_t resource_max = 16'383;  ///< bytes of the encoded Resource
inline constexpr std::size_t payload_max = 65'536;   ///< bytes in all: what common readers take

/// An encoded ArrayValue of texts, in the order in which they were added.
class TextList {
 public:
  void add(std::string_view text) noexcept;
  /// The position of `text`; size(): it is not there.
  [[nodiscard]] std::size_t find(std::string_view text) const noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Undoes the last add(), whether or not it found memory.
  void remove_last(std::size_t bytes_before) noexcept;
  [[nodiscard]] bool ok() const noexcept { return values_.ok(); }
  [[nodiscard]] const Buffer& values() const noexcept { return values_; }

 private:
  Buffer values_;
  std::size_t size_ = 0;
};

/// Attributes, no two with one key. Once memory runs out for one, the list is not ok().
class AttributeList {
 public:
  /// Each adds an attribute, or replaces the one of the same key.
  void set(const Attribute& attribute) noexcept;
  void set(std::string_view key, std::string_view text) noexcept;
  void set(std::string_view key, std::int64_t number) noexcept;
  void set(std::string_view key, const TextList& texts) noexcept;
  void set_all(const AttributeList& stronger) noexcept;

  void clear() noexcept { fields_.truncate(0); }
  [[nodiscard]] bool ok() const noexcept { return fields_.ok(); }
  /// As the attributes of a Resource.
  [[nodiscard]] const Buffer& fields() const noexcept { return fields_; }

 private:
  template <class Write>
  void put(std::string_view key, Write&& write_value) noexcept;
  void replace_earlier(std::size_t added_at) noexcept;

  Buffer fields_;
};

/// Encodes ProcessContext{resource, attributes} into `payload`, unless a limit above is exceeded, a
/// key is empty, a string is not UTF-8, or memory runs out (`payload` is then unspecified).
Status encode(const AttributeList& resource, const AttributeList& attributes,
              Buffer& payload) noexcept;

}  // namespace vitrine::context
