// What all signals of OTLP have in common: attributes, the resource and the scope, as values and on
// the wire (common.proto and resource.proto of opentelemetry-proto 1.11.0).
#pragma once

#include <array>
#include <cstdint>
#include <protozero/pbf_writer.hpp>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace vitrine::telemetry {

using Writer = protozero::pbf_writer;
using Tag = protozero::pbf_tag_type;

namespace fields {
using Field = std::uint32_t;
namespace any_value {
inline constexpr Field string_value = 1, bool_value = 2, int_value = 3, double_value = 4,
                       array_value = 5, bytes_value = 7, string_value_strindex = 8;
}
namespace array_value {
inline constexpr Field values = 1;
}
namespace key_value {
inline constexpr Field key = 1, value = 2;
}
namespace resource {
inline constexpr Field attributes = 1;
}
namespace scope {  // InstrumentationScope
inline constexpr Field name = 1, version = 2;
}
}  // namespace fields

/// The semantic conventions whose names the attributes have.
inline constexpr const char* conventions = "https://opentelemetry.io/schemas/1.37.0";

inline constexpr const char* pid_key = "process.pid";
inline constexpr const char* service_name_key = "service.name";
inline constexpr const char* thread_id_key = "thread.id";
inline constexpr const char* thread_name_key = "thread.name";
inline constexpr const char* cpu_key = "cpu.logical_number";

/// Bytes that are no text.
struct Blob {
  std::string bytes;
  bool operator==(const Blob&) const = default;
};

/// Texts may be any bytes: what is not UTF-8 is replaced on the wire.
using Value = std::variant<std::string, std::int64_t, double, bool, std::vector<std::string>, Blob>;

struct Attribute {
  std::string key;
  Value value;
  bool operator==(const Attribute&) const = default;
};
using Attributes = std::vector<Attribute>;

/// Which span something happened in.
struct TraceContext {
  std::array<std::uint8_t, 16> trace_id{};
  std::array<std::uint8_t, 8> span_id{};
  std::uint8_t flags = 0;
  bool operator==(const TraceContext&) const = default;
};

/// A number or a sum of them.
using Amount = std::variant<std::int64_t, double>;

// On the wire.

/// An AnyValue.
std::string encode_value(const Value& value);
/// A KeyValue.
void add_attribute(Writer& parent, Tag tag, std::string_view key, const Value& value);
void add_attributes(Writer& parent, Tag tag, const Attributes& attributes);
/// A Resource.
std::string encode_resource(const Attributes& attributes);
/// The InstrumentationScope: vitrine and its version.
void add_scope(Writer& parent, Tag tag);
/// An id of a trace or a span.
template <std::size_t size>
void add_id(Writer& parent, Tag tag, const std::array<std::uint8_t, size>& id) {
  parent.add_bytes(tag, reinterpret_cast<const char*>(id.data()), id.size());
}

}  // namespace vitrine::telemetry
