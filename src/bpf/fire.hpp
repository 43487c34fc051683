// Reading what the tracer emits: pure, no kernel needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bpf/moment.hpp"
#include "bpf/trace_wire.h"

namespace vitrine::bpf {

/// One capture. `bytes`: a string's, or the raw bytes of a value of more than 8 bytes.
struct Captured {
  vitrine_captured head{};
  std::span<const std::byte> bytes;

  [[nodiscard]] bool ok() const { return head.state == VITRINE_CAPTURED; }
};

/// A record of the ring buffer. Its views live as long as the bytes it was parsed from.
struct Fire {
  vitrine_fire head{};
  std::vector<Captured> captures;
  std::vector<FireSet> sets;
  std::vector<std::uint64_t> stack;  ///< where it fired, then return addresses

  [[nodiscard]] std::string comm() const { return comm_of(head.moment); }
};

/// Takes a record apart, into `fire` (whose vectors are used again). Error: malformed.
Result<void> parse_fire(std::span<const std::byte> record, Fire& fire);

}  // namespace vitrine::bpf
