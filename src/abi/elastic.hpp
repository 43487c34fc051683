// The Elastic APM profiling-correlation thread record, v1.
// Source: docs/formats/thread-context.md, "Elastic record".
#pragma once

#include <cstdint>

namespace vitrine::abi::elastic {

inline constexpr const char* slot_symbol = "elastic_apm_profiling_correlation_tls_v1";
inline constexpr const char* process_symbol =
    "elastic_apm_profiling_correlation_process_storage_v1";

struct [[gnu::packed]] Record {
  std::uint16_t minor_version;  ///< 1
  std::uint8_t valid;
  std::uint8_t trace_present;
  std::uint8_t trace_flags;
  std::uint8_t trace_id[16];
  std::uint8_t span_id[8];
  std::uint8_t transaction_id[8];
};
static_assert(sizeof(Record) == 37);

}  // namespace vitrine::abi::elastic
