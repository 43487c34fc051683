// Protobuf messages for tests, built field by field.
#pragma once

#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>

#include "base/memory.hpp"

namespace vitrine::test::pb {

/// A field of wire type LEN.
inline std::string field(std::uint32_t number, std::string_view content) {
  std::string bytes;
  protozero::pbf_writer(bytes).add_bytes(number, content.data(), content.size());
  return bytes;
}

inline std::string varint(std::uint32_t number, std::uint64_t value) {
  std::string bytes;
  protozero::pbf_writer(bytes).add_uint64(number, value);
  return bytes;
}

inline std::string text_value(std::string_view text) {
  return field(1, text);
}

inline std::string key_value(std::string_view key, std::string_view any_value) {
  return field(1, key) + field(2, any_value);
}

/// The ProcessContext whose resource has these KeyValue messages.
inline std::string with_resource(std::initializer_list<std::string> key_values) {
  std::string resource;
  for (const std::string& entry : key_values) resource += field(1, entry);
  return field(1, resource);
}

inline std::span<const std::byte> bytes(const std::string& message) {
  return std::as_bytes(std::span(message.data(), message.size()));
}

}  // namespace vitrine::test::pb
