#include "format/thread_schema.hpp"

#include <charconv>
#include <string_view>

#include "abi/thread_context.hpp"
#include "base/limits.hpp"

namespace vitrine::format {
namespace {

namespace names = abi::thread_context;

const AnyValue* find_anywhere(const ProcessContext& context, std::string_view key) {
  const AnyValue* value = find(context.attributes, key);
  return value ? value : find(context.resource, key);
}

std::optional<std::string> name_in(const AnyValue& value) {
  const auto* text = std::get_if<std::string>(&value.data);
  return text ? std::optional(*text) : std::nullopt;
}

/// Position is the index; an element that is no string keeps its place.
KeyMap keys_of(const ValueArray& array) {
  KeyMap map;
  for (const AnyValue& element : array) {
    if (map.names.size() == limits::key_map_entries) break;
    map.names.push_back(name_in(element));
  }
  return map;
}

/// Draft B: {"0": "name", …}.
KeyMap keys_of(const KeyValueList& list) {
  KeyMap map;
  for (const auto& [key, value] : list) {
    std::size_t index = 0;
    const char* end = key.data() + key.size();
    const auto [stop, error] = std::from_chars(key.data(), end, index);
    if (error != std::errc() || stop != end || index >= limits::key_map_entries) continue;
    if (index >= map.names.size()) map.names.resize(index + 1);
    map.names[index] = name_in(value);
  }
  return map;
}

}  // namespace

std::optional<ThreadSchema> schema_of(const ProcessContext& context) {
  const AnyValue* version = find_anywhere(context, names::schema_version_key);
  const AnyValue* type = find_anywhere(context, names::schema_type_key);
  const AnyValue* keys = find_anywhere(context, names::key_map_key);
  const AnyValue* size = find_anywhere(context, names::max_record_size_key);
  if (!version && !type && !keys) return std::nullopt;

  ThreadSchema schema;
  if (keys) {
    if (const auto* array = std::get_if<ValueArray>(&keys->data)) schema.keys = keys_of(*array);
    if (const auto* list = std::get_if<KeyValueList>(&keys->data)) schema.keys = keys_of(*list);
  }
  if (size)
    if (const auto* bytes = std::get_if<std::int64_t>(&size->data); bytes && *bytes >= 0)
      schema.max_record_size = static_cast<std::uint64_t>(*bytes);

  const auto* number = version ? std::get_if<std::int64_t>(&version->data) : nullptr;
  if (const auto* text = version ? std::get_if<std::string>(&version->data) : nullptr)
    schema.version = *text;
  if (number) schema.version = std::to_string(*number);

  if (type || number)
    schema.format = Format::v2_draft_b;
  else if (schema.version.starts_with("tlsdesc_v1"))
    schema.format = size ? Format::v2_draft_c : Format::v2_draft_d;
  else if (schema.version == names::schema_version_final)
    schema.format = Format::otel_thread_ctx_v1;
  return schema;
}

std::optional<Format> draft_behind_v2_symbol(const std::optional<ThreadSchema>& schema,
                                             bool has_reference) {
  if (has_reference) return Format::v2_draft_a;
  if (!schema || !schema->format) return std::nullopt;
  // The final schema has draft D's record.
  return schema->format == Format::otel_thread_ctx_v1 ? Format::v2_draft_d : schema->format;
}

}  // namespace vitrine::format
