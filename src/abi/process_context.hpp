// The process context (OTEP-4719): the header at the start of the mapping named OTEL_CTX.
// Source: docs/formats/process-context.md, "Header" and "Publishing".
#pragma once

#include <cstddef>
#include <cstdint>

namespace vitrine::abi::process_context {

inline constexpr const char* mapping_name = "OTEL_CTX";
inline constexpr char signature[8] = {'O', 'T', 'E', 'L', '_', 'C', 'T', 'X'};
inline constexpr std::uint32_t version = 2;
inline constexpr std::uint32_t version_1 = 1;  ///< development: HeaderV1

struct Header {
  char signature[8];
  std::uint32_t version;
  std::uint32_t payload_size;  ///< bytes of protobuf at `payload`
  /// CLOCK_BOOTTIME ns; 0 = being changed; differs on each update. To readers an opaque token:
  /// compared for equality only.
  std::uint64_t published_at_ns;
  std::uint64_t payload;  ///< address in the publisher
};
static_assert(sizeof(Header) == 32 && offsetof(Header, payload) == 24);

/// Version 1, a development form of August 2025: the payload is msgpack.
struct HeaderV1 {
  char signature[8];
  std::uint32_t version;
  std::uint32_t payload_size;
  std::uint64_t payload;
};
static_assert(sizeof(HeaderV1) == 24);

}  // namespace vitrine::abi::process_context
