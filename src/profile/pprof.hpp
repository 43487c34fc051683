// Field numbers of pprof's profile.proto, by message (docs/formats/profiles.md, "pprof").
#pragma once

#include <cstdint>

namespace vitrine::profile::pprof {

using Field = std::uint32_t;

namespace profile {
inline constexpr Field sample_type = 1, sample = 2, mapping = 3, location = 4, function = 5,
                       string_table = 6, time_nanos = 9, duration_nanos = 10, period_type = 11,
                       period = 12, comment = 13, default_sample_type = 14;
}
namespace value_type {
inline constexpr Field type = 1, unit = 2;
}
namespace sample {
inline constexpr Field location_id = 1, value = 2, label = 3;
}
namespace label {
inline constexpr Field key = 1, str = 2, num = 3, num_unit = 4;
}
namespace mapping {
inline constexpr Field id = 1, start = 2, limit = 3, offset = 4, filename = 5, build_id = 6,
                       has_functions = 7, has_filenames = 8, has_line_numbers = 9,
                       has_inline_frames = 10;
}
namespace location {
inline constexpr Field id = 1, mapping_id = 2, address = 3, line = 4;
}
namespace line {
inline constexpr Field function_id = 1, line = 2;
}
namespace function {
inline constexpr Field id = 1, name = 2, system_name = 3, filename = 4, start_line = 5;
}

// Labels by which vitrine writes what a sample is of, and texts that stand for others.
inline constexpr const char* pid_key = "pid";
inline constexpr const char* process_key = "process";
inline constexpr const char* thread_id_key = "thread_id";
inline constexpr const char* thread_name_key = "thread_name";
inline constexpr const char* trace_id_key = "trace_id";
inline constexpr const char* span_id_key = "span_id";
inline constexpr const char* empty_value = "(empty)";     ///< readers drop empty texts
inline constexpr const char* origin = "vitrine profile";  ///< the first comment

}  // namespace vitrine::profile::pprof
