// The serial check: proof, without stopping the thread, that a set of our own writer was read whole
// (docs/formats/custom-labels.md, "Serial trailer").
//
// The reader's order, each step its own element of a batched read or its own call:
//   slot; the set's 56 bytes (serial_of: foreign, or a mark); the labels; slot; the 56 bytes again.
// The labels belong together, and were in force at the second slot read, when both slots are equal
// and still_stands() holds. Bytes inside one element have no order, so the first 56 bytes must be
// an element of their own before the window that holds the labels.
#pragma once

#include <cstdint>
#include <optional>

#include "abi/custom_labels.hpp"
#include "base/memory.hpp"

namespace vitrine::format {

/// Which incarnation of which block was seen.
struct SerialMark {
  Address set = 0;
  std::uint64_t serial = 0;
  std::uint32_t total_bytes = 0;  ///< of the block, from the set's first byte; as published

  bool operator==(const SerialMark&) const = default;
};

/// The mark in a set read at `set` (tag bits removed). nullopt: a foreign writer's set, or a block
/// that is being rewritten; only another kind of evidence helps.
std::optional<SerialMark> serial_of(const abi::custom_labels::SerialSet& bytes, Address set);

/// Whether the second reading of the same set shows the same incarnation.
bool still_stands(const SerialMark& mark, const abi::custom_labels::SerialSet& again);

/// Reads the 56 bytes and looks for the mark. Give the process itself, not a cache. nullopt, too,
/// when they are not readable: a foreign set of 24 bytes may lie at the end of a mapping.
std::optional<SerialMark> read_serial(Memory& memory, Address set);

}  // namespace vitrine::format
