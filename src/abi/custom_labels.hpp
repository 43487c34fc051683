// Custom Labels ABI v0 and v1: what a thread-local slot of a publisher holds.
// Source: polarsignals custom-labels, ABI v0 and v1 (docs/formats/custom-labels.md).
// LP64, little-endian in practice; the target's own byte order.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vitrine::abi::custom_labels {

inline constexpr const char* version_symbol = "custom_labels_abi_version";  ///< OBJECT, 4 bytes
inline constexpr std::uint32_t version_size = 4;

inline constexpr const char* v0_slot_symbol = "custom_labels_thread_local_data";  ///< TLS, 16 bytes
inline constexpr const char* v1_slot_symbol = "custom_labels_current_set";        ///< TLS, 8 bytes

/// buf == 0 means "no value": a label whose key has none is skipped by readers.
struct String {
  std::uint64_t len;
  std::uint64_t buf;
};
static_assert(sizeof(String) == 16);

struct Label {
  String key;
  String value;
};
static_assert(sizeof(Label) == 32 && offsetof(Label, value) == 16);

/// v0: the slot itself, by value.
struct SetV0 {
  std::uint64_t storage;  ///< address of `count` labels
  std::uint64_t count;
};
static_assert(sizeof(SetV0) == 16);

/// v1: the slot holds this struct's address, or 0 for "no set in force".
struct SetV1 {
  std::uint64_t storage;
  std::uint64_t count;
  std::uint64_t capacity;  ///< private to the writer; readers ignore it
};
static_assert(sizeof(SetV1) == 24);

/// What vitrine's own writer puts right after the 24 bytes of the ABI, so that a reader knows,
/// without stopping the thread, that the bytes it copied belong together
/// (docs/formats/custom-labels.md, "Serial trailer").
struct SerialTrailer {
  std::uint64_t magic;   ///< serial_magic, else this is a foreign writer's set
  std::uint64_t serial;  ///< unique in the process; 0 while the block is being rewritten
  std::uint32_t
      total_bytes;      ///< of the block, from the set's first byte: labels and strings inside
  std::uint32_t flags;  ///< reserved: 0
  std::uint64_t self;   ///< address of the set: a copied block does not pass for the original
};
static_assert(sizeof(SerialTrailer) == 32);

struct SerialSet {
  SetV1 set;
  SerialTrailer trailer;
};
static_assert(sizeof(SerialSet) == 56 && offsetof(SerialSet, trailer) == 24);

inline constexpr std::uint64_t serial_magic = 0x76d1'7e1a'b315'e751ULL;

}  // namespace vitrine::abi::custom_labels
