// The header of a process context, and one attempt at reading it with its payload while its
// publisher may be changing them. Source: docs/formats/process-context.md, "Header" and "Reading".
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/memory.hpp"

namespace vitrine::format {

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

}  // namespace vitrine::format
