// Field numbers of OTLP profiles: opentelemetry/proto/profiles/v1development/profiles.proto of
// opentelemetry-proto 1.11.0 (docs/formats/profiles.md, "OTLP").
#pragma once

#include <cstdint>

#include "telemetry/attributes.hpp"

namespace vitrine::profile::otlp {

using Field = std::uint32_t;

namespace data {  // ProfilesData; ExportProfilesServiceRequest has the same
inline constexpr Field resource_profiles = 1, dictionary = 2;
}
namespace resource_profiles {
inline constexpr Field resource = 1, scope_profiles = 2, schema_url = 3;
}
namespace scope_profiles {
inline constexpr Field scope = 1, profiles = 2, schema_url = 3;
}
namespace dictionary {
inline constexpr Field mapping_table = 1, location_table = 2, function_table = 3, link_table = 4,
                       string_table = 5, attribute_table = 6, stack_table = 7;
}
namespace profile {
inline constexpr Field sample_type = 1, samples = 2, time_unix_nano = 3, duration_nano = 4,
                       period_type = 5, period = 6, profile_id = 7, attribute_indices = 11;
}
namespace sample {
inline constexpr Field stack_index = 1, attribute_indices = 2, link_index = 3, values = 4,
                       timestamps_unix_nano = 5;
}
namespace stack {
inline constexpr Field location_indices = 1;
}
namespace link {
inline constexpr Field trace_id = 1, span_id = 2;
}
namespace value_type {
inline constexpr Field type_strindex = 1, unit_strindex = 2;
}
namespace location {
inline constexpr Field mapping_index = 1, address = 2, lines = 3, attribute_indices = 4;
}
namespace line {
inline constexpr Field function_index = 1, line = 2;
}
namespace function {
inline constexpr Field name_strindex = 1, system_name_strindex = 2, filename_strindex = 3,
                       start_line = 4;
}
namespace mapping {
inline constexpr Field memory_start = 1, memory_limit = 2, file_offset = 3, filename_strindex = 4,
                       attribute_indices = 5;
}
namespace attribute {  // KeyValueAndUnit
inline constexpr Field key_strindex = 1, value = 2;
}
namespace any_value = telemetry::fields::any_value;
namespace array_value = telemetry::fields::array_value;
namespace key_value = telemetry::fields::key_value;
namespace resource = telemetry::fields::resource;
namespace scope = telemetry::fields::scope;

// Keys of attributes: the semantic conventions', and one of vitrine's.
using telemetry::pid_key;
inline constexpr const char* executable_path_key = "process.executable.path";
inline constexpr const char* executable_name_key = "process.executable.name";
inline constexpr const char* build_id_key = "process.executable.build_id.gnu";
inline constexpr const char* content_hash_key = "process.executable.build_id.htlhash";
using telemetry::cpu_key;
using telemetry::service_name_key;
using telemetry::thread_id_key;
using telemetry::thread_name_key;
inline constexpr const char* trace_id_key = "trace_id";  ///< only on request: links have it
inline constexpr const char* span_id_key = "span_id";
inline constexpr const char* frame_type_key = "profile.frame.type";
inline constexpr const char* abort_marker = "abort-marker";  ///< a value of it
inline constexpr const char* remarks_key = "vitrine.remarks";

}  // namespace vitrine::profile::otlp
