// The process context: header, attribute values, payload, and the whole as a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/memory.hpp"
#include "base/result.hpp"
#include "format/label_set.hpp"

namespace vitrine::format {

// The header of a process context, and one attempt at reading it with its payload while its
// publisher may be changing them. Source: docs/formats/process-context.md, "Header" and "Reading".

/// The 32 bytes (version 1: 24), as published.
struct ContextHeader {
  std::uint32_t version = 0;
  std::uint32_t payload_size = 0;
  std::uint64_t stamp = 0;  ///< 0: being changed; version 1 has none
  Address payload = 0;

  bool operator==(const ContextHeader&) const = default;
};

/// Reads a header. Errors: malformed (not readable; no signature), unsupported (version).
Result<ContextHeader> read_context_header(Memory& memory, Address at);

struct ContextAttempt {
  enum class Outcome : std::uint8_t {
    complete,    ///< `payload` belongs to `header`
    unchanged,   ///< the stamp is the one already known
    updating,    ///< the publisher is changing it; try again
    changed,     ///< it changed while it was being read; try again
    unreadable,  ///< the payload was just freed, or is nowhere; try again
  };
  Outcome outcome = Outcome::complete;
  ContextHeader header;
  std::vector<std::byte> payload;
};

/// One attempt. `known_stamp`: of the reading one has, 0 for none. Errors, which no further attempt
/// would mend: as read_context_header, and malformed (payload null or empty) or limit (larger than
/// limits::context_payload_bytes).
Result<ContextAttempt> attempt_context(Memory& memory, Address at, std::uint64_t known_stamp);

// AnyValue: a value of an OpenTelemetry attribute.

struct AnyValue;
struct KeyValue;

using ValueArray = std::vector<AnyValue>;
using KeyValueList = std::vector<KeyValue>;

/// An opaque byte string, as against text.
struct Blob {
  std::string bytes;

  bool operator==(const Blob&) const = default;
};

struct AnyValue {
  /// monostate: no value was set. Text may hold any bytes, too, when its publisher broke the rules.
  std::variant<std::monostate, std::string, bool, std::int64_t, double, ValueArray, KeyValueList,
               Blob>
      data;
};

struct KeyValue {
  std::string key;
  AnyValue value;
};

bool operator==(const AnyValue& left, const AnyValue& right);
bool operator==(const KeyValue& left, const KeyValue& right);

/// The value of `key`; of several the last, as protobuf readers do. Null: there is none.
const AnyValue* find(const KeyValueList& list, std::string_view key);

/// The same when it is text; null otherwise.
const std::string* find_text(const KeyValueList& list, std::string_view key);

// The process context (OTEP-4719): its content, and decoding its payload.
// Source: docs/formats/process-context.md, "Header" and "Payload".

struct EntityRef {
  std::string schema_url;
  std::string type;
  std::vector<std::string> id_keys;
  std::vector<std::string> description_keys;

  bool operator==(const EntityRef&) const = default;
};

struct ProcessContext {
  std::uint32_t version = 0;          ///< of the header: 1 (development) or 2
  std::uint64_t published_at_ns = 0;  ///< an opaque stamp, despite its name; 0 in version 1
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

// The decoders of its two versions, and what they share.

/// Version 2. Fails as `malformed`.
Result<ProcessContext> decode_protobuf(std::span<const std::byte> payload);

/// Version 1. Fails as `malformed`, or as `limit` when nested too deep.
Result<ProcessContext> decode_msgpack(std::span<const std::byte> payload);

/// Notes, once for each `what`, that a limit cut something.
void note_cut(ProcessContext& context, const char* what, std::string detail);

}  // namespace vitrine::format
