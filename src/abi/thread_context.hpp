// The OpenTelemetry thread context record (OTEP-4947) and the custom-labels v2 drafts it grew from.
// Source: docs/formats/thread-context.md.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vitrine::abi::thread_context {

inline constexpr const char* slot_symbol = "otel_thread_ctx_v1";                   ///< TLS pointer
inline constexpr const char* draft_slot_symbol = "custom_labels_current_set_v2";   ///< TLS pointer
inline constexpr const char* draft_a_ref_symbol = "custom_labels_current_ref_v2";  ///< TLS pointer
inline constexpr const char* draft_a_version_symbol = "custom_labels_abi_version_v2";

/// OTEP-4947 and drafts C, D. Followed by `attrs_size` bytes of {u8 key index, u8 len, bytes}.
struct [[gnu::packed]] Record {
  std::uint8_t trace_id[16];
  std::uint8_t span_id[8];
  std::uint8_t valid;        ///< exactly 1, else the record is ignored
  std::uint8_t trace_flags;  ///< padding in drafts C, D
  std::uint16_t attrs_size;
};
static_assert(sizeof(Record) == 28);

/// Drafts A and B. Followed by `attrs_count` entries of {u8 key index, u8 len, bytes}.
struct [[gnu::packed]] DraftRecord {
  std::uint8_t trace_id[16];
  std::uint8_t span_id[8];
  std::uint8_t root_span_id[8];
  std::uint8_t valid;
  std::uint8_t attrs_count;
};
static_assert(sizeof(DraftRecord) == 34);

/// Draft A: what custom_labels_current_ref_v2 points at. The key table is {u32 bytes} followed by
/// that many bytes of {u8 len, name}.
struct DraftReference {
  std::uint8_t schema_version;  ///< 1
  std::uint8_t padding[7];
  std::uint64_t key_table;
  std::uint64_t max_record_size;
};
static_assert(sizeof(DraftReference) == 24);

inline constexpr std::size_t attribute_value_max = 255;
inline constexpr std::size_t recommended_record_max = 640;  ///< bytes, header included

/// Keys of the process context that describe the record.
inline constexpr const char* schema_version_key = "threadlocal.schema_version";
inline constexpr const char* schema_type_key = "threadlocal.schema_type";  ///< draft B only
inline constexpr const char* max_record_size_key = "threadlocal.max_record_size";
inline constexpr const char* key_map_key = "threadlocal.attribute_key_map";
/// What released readers accept, and what the OTEP announces for the same records: no reader yet.
inline constexpr const char* schema_version_released = "tlsdesc_v1_dev";
inline constexpr const char* schema_version_final = "tls_v1";

}  // namespace vitrine::abi::thread_context
