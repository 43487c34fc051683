#include "profile/otlp_dictionary_writer.hpp"

#include <protozero/pbf_writer.hpp>

namespace vitrine::profile {

using telemetry::Tag;
using telemetry::Writer;

namespace {

void add_address(Writer& message, Tag tag, std::uint64_t number) {
  if (number != 0) message.add_uint64(tag, number);
}

void add_line(Writer& location, std::int32_t function, std::uint32_t line) {
  std::string encoded;
  Writer message(encoded);
  add_number(message, otlp::line::function_index, function);
  add_number(message, otlp::line::line, line);
  location.add_message(otlp::location::lines, encoded);
}

std::string_view frame_type(FrameKind kind) {
  switch (kind) {
    case FrameKind::native:
      return "native";
    case FrameKind::kernel:
      return "kernel";
    case FrameKind::jit:
      return "jit";  // perf-PID.map does not record whose
    case FrameKind::unknown:
      break;
  }
  return "";
}

}  // namespace

void add_number(Writer& message, Tag tag, std::int64_t number) {
  if (number != 0) message.add_int64(tag, number);
}

void add_indices(Writer& message, Tag tag, const std::vector<std::int32_t>& indices) {
  message.add_packed_int32(tag, indices.begin(), indices.end());
}

void OtlpDictionaryWriter::Table::clear() {
  entries_.take();
  add({});
}

std::int32_t OtlpDictionaryWriter::Table::add(std::string encoded) {
  return static_cast<std::int32_t>(entries_.add(std::move(encoded)));
}

void OtlpDictionaryWriter::Table::write(Writer& dictionary, Tag tag) const {
  for (const std::string& entry : entries_.values()) dictionary.add_message(tag, entry);
}

OtlpDictionaryWriter::OtlpDictionaryWriter(const Profile& profile, bool compact, CleanText& clean)
    : profile_(profile),
      compact_(compact),
      clean_(clean),
      functions_(profile.functions.size(), message_),
      mappings_(profile.mappings.size(), message_),
      locations_(profile.locations.size(), message_),
      stacks_(profile.stacks.size(), message_),
      links_(profile.links.size(), message_) {}

void OtlpDictionaryWriter::begin() {
  ++message_;
  for (Table* table : {&mapping_table_, &location_table_, &function_table_, &link_table_,
                       &string_table_, &attribute_table_, &stack_table_})
    table->clear();
}

void OtlpDictionaryWriter::write(Writer& dictionary) const {
  mapping_table_.write(dictionary, otlp::dictionary::mapping_table);
  location_table_.write(dictionary, otlp::dictionary::location_table);
  function_table_.write(dictionary, otlp::dictionary::function_table);
  link_table_.write(dictionary, otlp::dictionary::link_table);
  string_table_.write(dictionary, otlp::dictionary::string_table);
  attribute_table_.write(dictionary, otlp::dictionary::attribute_table);
  stack_table_.write(dictionary, otlp::dictionary::stack_table);
}

std::int32_t OtlpDictionaryWriter::string(std::string_view bytes) {
  return string_table_.add(clean_(bytes));
}

std::int32_t OtlpDictionaryWriter::attribute_of(std::string_view key,
                                                const std::string& any_value) {
  std::string encoded;
  Writer message(encoded);
  add_number(message, otlp::attribute::key_strindex, string(key));
  message.add_message(otlp::attribute::value, any_value);
  return attribute_table_.add(std::move(encoded));
}

std::int32_t OtlpDictionaryWriter::attribute(std::string_view key, std::string_view text) {
  std::string value;
  if (compact_)
    Writer(value).add_int32(otlp::any_value::string_value_strindex, string(text));
  else
    Writer(value).add_string(otlp::any_value::string_value, clean_(text));
  return attribute_of(key, value);
}

std::int32_t OtlpDictionaryWriter::attribute(std::string_view key, std::int64_t number) {
  std::string value;
  Writer(value).add_int64(otlp::any_value::int_value, number);
  return attribute_of(key, value);
}

std::int32_t OtlpDictionaryWriter::function(Index index) {
  std::int32_t& place = functions_[index];
  if (place >= 0) return place;
  const Function& from = profile_.functions[index];
  return place = named_function(from.name.empty() ? from.system_name : from.name, from.system_name,
                                from.file, from.start_line);
}

std::int32_t OtlpDictionaryWriter::named_function(std::string_view name,
                                                  std::string_view system_name,
                                                  std::string_view file, std::uint32_t start_line) {
  std::string encoded;
  Writer message(encoded);
  add_number(message, otlp::function::name_strindex, string(name));
  add_number(message, otlp::function::system_name_strindex, string(system_name));
  add_number(message, otlp::function::filename_strindex, string(file));
  add_number(message, otlp::function::start_line, start_line);
  return function_table_.add(std::move(encoded));
}

std::int32_t OtlpDictionaryWriter::mapping(Index index) {
  if (index >= mappings_.size()) return 0;
  std::int32_t& place = mappings_[index];
  if (place >= 0) return place;
  const Mapping& from = profile_.mappings[index];
  std::vector<std::int32_t> ids;
  if (!from.build_id.empty()) ids.push_back(attribute(otlp::build_id_key, from.build_id));
  if (!from.content_hash.empty())
    ids.push_back(attribute(otlp::content_hash_key, from.content_hash));
  std::string encoded;
  Writer message(encoded);
  add_address(message, otlp::mapping::memory_start, from.start);
  add_address(message, otlp::mapping::memory_limit, from.limit);
  add_address(message, otlp::mapping::file_offset, from.file_offset);
  add_number(message, otlp::mapping::filename_strindex, string(from.file));
  add_indices(message, otlp::mapping::attribute_indices, ids);
  return place = mapping_table_.add(std::move(encoded));
}

std::int32_t OtlpDictionaryWriter::location(Index index) {
  std::int32_t& place = locations_[index];
  if (place >= 0) return place;
  const Location& from = profile_.locations[index];
  std::string encoded;
  Writer message(encoded);
  add_number(message, otlp::location::mapping_index, mapping(from.mapping));
  add_address(message, otlp::location::address, from.address);
  for (const Line& line : from.lines)
    if (entry(profile_.functions, line.function) != nullptr)
      add_line(message, function(line.function), line.line);
  if (const std::string_view type = frame_type(from.kind); !type.empty())
    add_indices(message, otlp::location::attribute_indices,
                {attribute(otlp::frame_type_key, type)});
  return place = location_table_.add(std::move(encoded));
}

std::int32_t OtlpDictionaryWriter::mark(std::string_view name) {
  const std::int32_t called = named_function(name, "", "", 0);
  std::string encoded;
  Writer message(encoded);
  add_line(message, called, 0);
  add_indices(message, otlp::location::attribute_indices,
              {attribute(otlp::frame_type_key, otlp::abort_marker)});
  return location_table_.add(std::move(encoded));
}

std::int32_t OtlpDictionaryWriter::stack(Index index) {
  if (index >= stacks_.size()) return 0;
  std::int32_t& place = stacks_[index];
  if (place >= 0) return place;
  const Stack& from = profile_.stacks[index];
  std::vector<std::int32_t> places;
  for (const Index one : from.locations)
    if (one < locations_.size()) places.push_back(location(one));
  if (const std::string_view name = end_mark(from.end); !name.empty()) places.push_back(mark(name));
  std::string encoded;
  Writer message(encoded);
  add_indices(message, otlp::stack::location_indices, places);
  return place = stack_table_.add(std::move(encoded));
}

std::int32_t OtlpDictionaryWriter::link(Index index) {
  const Link* from = entry(profile_.links, index);
  if (from == nullptr || !from->is_valid()) return 0;
  std::int32_t& place = links_[index];
  if (place >= 0) return place;
  std::string encoded;
  Writer message(encoded);
  message.add_bytes(otlp::link::trace_id, reinterpret_cast<const char*>(from->trace_id.data()),
                    from->trace_id.size());
  message.add_bytes(otlp::link::span_id, reinterpret_cast<const char*>(from->span_id.data()),
                    from->span_id.size());
  return place = link_table_.add(std::move(encoded));
}

}  // namespace vitrine::profile
