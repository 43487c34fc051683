// The protobuf encoding of a process context: exactly the messages of that format, no more.
// Source: docs/formats/process-context.md, "Payload".
//
// Attributes are kept in their encoded form: one buffer holds all of a list, so what can fail is one
// allocation, and a list is shown as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "publish/buffer.hpp"
#include "vitrine/context.hpp"

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
