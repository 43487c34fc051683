// The process context (OTEP-4719): what it says, and decoding its payload.
// Source: docs/formats/process-context.md, "Header" and "Payload".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "format/any_value.hpp"
#include "format/label_set.hpp"

namespace vitrine::format {

struct EntityRef {
  std::string schema_url;
  std::string type;
  std::vector<std::string> id_keys;
  std::vector<std::string> description_keys;

  bool operator==(const EntityRef&) const = default;
};

struct ProcessContext {
  std::uint32_t version = 0;          ///< of the header: 1 (development) or 2
  std::uint64_t published_at_ns = 0;  ///< an opaque stamp, whatever its name says; 0 in version 1
  bool bare_resource = false;         ///< payload of before 2026-02-18: a Resource without wrapper

  KeyValueList resource;    ///< resource attributes, as published: keys may repeat
  KeyValueList attributes;  ///< of the process context itself
  std::uint32_t dropped_attributes_count = 0;
  std::vector<EntityRef> entity_refs;

  std::vector<Truncation> truncated;  ///< empty: complete
  std::vector<std::string> defects;   ///< rules of the format that the publisher broke

  bool operator==(const ProcessContext&) const = default;
};

/// Decodes the payload of a header of `version` (1: msgpack, 2: protobuf). Fails as `malformed`
/// when it breaks the encoding's rules, as `unsupported` for another version.
Result<ProcessContext> decode_payload(std::uint32_t version, std::span<const std::byte> payload);

}  // namespace vitrine::format
