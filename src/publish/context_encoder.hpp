// The protobuf encoding of a process context: exactly the messages of that format, no more.
// Source: ../shared/spec/labels.md 2.7.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "vitrine/context.hpp"

namespace vitrine::context {

inline constexpr std::size_t string_max = 4096;      ///< bytes of a key or of one text
inline constexpr std::size_t resource_max = 16'383;  ///< bytes of the encoded Resource
inline constexpr std::size_t payload_max = 65'536;   ///< bytes in all: what common readers take

/// Encodes ProcessContext{resource, attributes} into `payload`, unless a limit above is exceeded, a
/// key is empty, or a string is not UTF-8 (`payload` is then unspecified).
Status encode(const std::vector<Attribute>& resource, const std::vector<Attribute>& attributes,
              std::string& payload);

/// Whether `text` is well-formed UTF-8: no surrogates, no overlong forms.
bool is_utf8(std::string_view text) noexcept;

}  // namespace vitrine::context
