#include "profile/otlp_dictionary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/limits.hpp"
#include "profile/encode.hpp"

namespace vitrine::profile {
namespace {

constexpr std::size_t max_remarks = 4096;

/// An index into a table; refuses one that is past its end.
std::size_t at(std::int64_t index, std::size_t size, std::string_view what) {
  if (index == 0) return 0;
  if (index < 0 || static_cast<std::size_t>(index) >= size)
    refuse(fmt::format("{} {} of {}", what, index, size));
  return static_cast<std::size_t>(index);
}

/// The same, of a table of the profile, which has no entry 0.
Index index_of(std::int64_t index, std::size_t size, std::string_view what) {
  const std::size_t place = at(index, size, what);
  return place == 0 ? none : static_cast<Index>(place - 1);
}

FrameKind kind_of(std::optional<std::string_view> type, std::string_view file, bool named) {
  if (!type) return frame_kind(file, named);
  if (*type == "kernel") return FrameKind::kernel;
  if (*type == "native" || *type == "go" || *type == "rust") return FrameKind::native;
  return FrameKind::jit;  // of a runtime: no addresses of a file
}

template <std::size_t size>
void take_id(std::array<std::uint8_t, size>& into, OtlpView bytes) {
  if (bytes.size() == size) std::copy_n(bytes.data(), size, into.begin());
}

/// The texts of it; nothing else is used, and nothing nested is followed.
std::vector<std::string_view> array(OtlpReader message) {
  std::vector<std::string_view> texts;
  while (message.next(otlp::array_value::values, protozero::pbf_wire_type::length_delimited)) {
    OtlpReader one = message.get_message();
    while (one.next()) {
      if (one.tag_and_type() == nested(otlp::any_value::string_value))
        texts.push_back(text_of(one.get_view()));
      else
        one.skip();
    }
    check_count(texts.size(), max_remarks, "remarks");
  }
  return texts;
}

}  // namespace

void OtlpDictionary::read() {
  read_attributes();
  read_mappings();
  read_functions();
  read_locations();
  read_stacks();
  read_links();
  place_.part = nullptr;
}

Index OtlpDictionary::stack(std::int64_t index) const {
  const std::size_t place = at(index, stacks_.size(), "stack");
  return stack_places_.empty() ? none : stack_places_[place];
}

Index OtlpDictionary::link(std::int64_t index) const {
  const std::size_t place = at(index, links_.size(), "link");
  return link_places_.empty() ? none : link_places_[place];
}

void OtlpDictionary::find_tables(OtlpReader message) {
  const auto keep = [&](Views& into, std::size_t most, std::string_view what) {
    into.push_back(message.get_view());
    reading_.count(sizeof into.back());
    check_count(into.size(), most, what);
  };
  while (message.next()) switch (message.tag_and_type()) {
      case nested(otlp::dictionary::mapping_table):
        keep(mappings_, limits::profile_mappings, "mappings");
        break;
      case nested(otlp::dictionary::location_table):
        keep(locations_, limits::profile_locations, "locations");
        break;
      case nested(otlp::dictionary::function_table):
        keep(functions_, limits::profile_locations, "functions");
        break;
      case nested(otlp::dictionary::link_table):
        keep(links_, limits::profile_label_sets, "spans");
        break;
      case nested(otlp::dictionary::string_table):
        keep(strings_, limits::profile_strings, "strings");
        break;
      case nested(otlp::dictionary::attribute_table):
        keep(attribute_views_, limits::profile_strings, "attributes");
        break;
      case nested(otlp::dictionary::stack_table):
        keep(stacks_, limits::profile_stacks, "stacks");
        break;
      default:
        message.skip();
    }
}

std::string_view OtlpDictionary::string(std::int64_t index) const {
  const std::size_t place = at(index, strings_.size(), "string");
  return strings_.empty() ? std::string_view() : text_of(strings_[place]);
}

OtlpDictionary::Value OtlpDictionary::any_value(OtlpReader message) const {
  Value value;
  while (message.next()) switch (message.tag_and_type()) {
      case nested(otlp::any_value::string_value):
        value.text = text_of(message.get_view());
        break;
      case varint(otlp::any_value::string_value_strindex):
        value.text = string(message.get_int32());
        break;
      case varint(otlp::any_value::bool_value):
        value.text = message.get_bool() ? "true" : "false";
        break;
      case varint(otlp::any_value::int_value):
        value.number = message.get_int64();
        value.is_number = true;
        break;
      case nested(otlp::any_value::array_value):
        value.texts = array(message.get_message());
        break;
      default:
        message.skip();
    }
  return value;
}

void OtlpDictionary::read_attributes() {
  place_.part = "attribute";
  for (place_.number = 0; place_.number < attribute_views_.size(); ++place_.number) {
    NamedValue attribute;
    OtlpReader message(attribute_views_[place_.number]);
    while (message.next()) switch (message.tag_and_type()) {
        case varint(otlp::attribute::key_strindex):
          attribute.key = string(message.get_int32());
          break;
        case nested(otlp::attribute::value):
          attribute.value = any_value(message.get_message());
          break;
        default:
          message.skip();
      }
    reading_.count(sizeof attribute);
    attributes_.push_back(std::move(attribute));
  }
}

const OtlpDictionary::NamedValue* OtlpDictionary::attribute(std::int64_t index) const {
  const std::size_t place = at(index, attributes_.size(), "attribute");
  return place == 0 ? nullptr : &attributes_[place];
}

void OtlpDictionary::read_mappings() {
  place_.part = "mapping";
  for (place_.number = 1; place_.number < mappings_.size(); ++place_.number) {
    Mapping mapping;
    OtlpReader message(mappings_[place_.number]);
    while (message.next()) {
      const bool taken =
          take_indices(message, otlp::mapping::attribute_indices, [&](std::int32_t index) {
            const NamedValue* named = attribute(index);
            if (named == nullptr) return;
            if (named->key == otlp::build_id_key)
              mapping.build_id = reading_.text(named->value.text);
            if (named->key == otlp::content_hash_key)
              mapping.content_hash = reading_.text(named->value.text);
          });
      if (taken) continue;
      switch (message.tag_and_type()) {
        case varint(otlp::mapping::memory_start):
          mapping.start = message.get_uint64();
          break;
        case varint(otlp::mapping::memory_limit):
          mapping.limit = message.get_uint64();
          break;
        case varint(otlp::mapping::file_offset):
          mapping.file_offset = message.get_uint64();
          break;
        case varint(otlp::mapping::filename_strindex):
          mapping.file = text(message.get_int32());
          break;
        default:
          message.skip();
      }
    }
    reading_.count(sizeof mapping);
    reading_.profile.mappings.push_back(std::move(mapping));
  }
}

void OtlpDictionary::read_functions() {
  place_.part = "function";
  for (place_.number = 1; place_.number < functions_.size(); ++place_.number) {
    Function function;
    OtlpReader message(functions_[place_.number]);
    while (message.next()) switch (message.tag_and_type()) {
        case varint(otlp::function::name_strindex):
          function.name = text(message.get_int32());
          break;
        case varint(otlp::function::system_name_strindex):
          function.system_name = text(message.get_int32());
          break;
        case varint(otlp::function::filename_strindex):
          function.file = text(message.get_int32());
          break;
        case varint(otlp::function::start_line):
          function.start_line = line_number(message.get_int64());
          break;
        default:
          message.skip();
      }
    reading_.count(sizeof function);
    reading_.profile.functions.push_back(std::move(function));
  }
}

void OtlpDictionary::read_locations() {
  place_.part = "location";
  std::size_t lines = 0;
  ends_.resize(locations_.empty() ? 0 : locations_.size() - 1);
  for (place_.number = 1; place_.number < locations_.size(); ++place_.number) {
    Location location;
    std::optional<std::string_view> type;
    OtlpReader message(locations_[place_.number]);
    while (message.next()) {
      const bool taken =
          take_indices(message, otlp::location::attribute_indices, [&](std::int32_t index) {
            const NamedValue* named = attribute(index);
            if (named != nullptr && named->key == otlp::frame_type_key) type = named->value.text;
          });
      if (taken) continue;
      switch (message.tag_and_type()) {
        case varint(otlp::location::mapping_index):
          location.mapping = index_of(message.get_int32(), mappings_.size(), "mapping");
          break;
        case varint(otlp::location::address):
          location.address = message.get_uint64();
          break;
        case nested(otlp::location::lines):
          location.lines.push_back(line(message.get_message()));
          check_count(++lines, limits::profile_frames, "lines of locations");
          break;
        default:
          message.skip();
      }
    }
    const Mapping* mapping = entry(reading_.profile.mappings, location.mapping);
    location.kind = kind_of(type, mapping == nullptr ? std::string_view() : mapping->file,
                            !location.lines.empty());
    if (type == otlp::abort_marker) {
      const Function* function =
          location.lines.empty() ? nullptr
                                 : entry(reading_.profile.functions, location.lines[0].function);
      ends_[place_.number - 1] = StackEnd::no_rule;
      if (function != nullptr)
        ends_[place_.number - 1] = end_of_mark(function->name).value_or(StackEnd::no_rule);
    }
    reading_.count(sizeof location + location.lines.size() * sizeof(Line));
    reading_.profile.locations.push_back(std::move(location));
  }
}

Line OtlpDictionary::line(OtlpReader message) const {
  Line out;
  while (message.next()) switch (message.tag_and_type()) {
      case varint(otlp::line::function_index):
        out.function = index_of(message.get_int32(), functions_.size(), "function");
        break;
      case varint(otlp::line::line):
        out.line = line_number(message.get_int64());
        break;
      default:
        message.skip();
    }
  return out;
}

void OtlpDictionary::read_stacks() {
  place_.part = "stack";
  for (place_.number = 0; place_.number < stacks_.size(); ++place_.number) {
    Stack stack;
    OtlpReader message(stacks_[place_.number]);
    while (message.next()) {
      const bool taken =
          take_indices(message, otlp::stack::location_indices, [&](std::int32_t index) {
            const Index location = index_of(index, locations_.size(), "location");
            if (location != none) stack.locations.push_back(location);
            check_count(stack.locations.size(), max_depth, "frames of a stack");
          });
      if (!taken) message.skip();
    }
    if (!stack.locations.empty())
      if (const auto end = ends_[stack.locations.back()]) {
        stack.end = *end;
        stack.locations.pop_back();
      }
    stack_places_.push_back(reading_.stack(std::move(stack)));
  }
}

void OtlpDictionary::read_links() {
  place_.part = "link";
  for (place_.number = 0; place_.number < links_.size(); ++place_.number) {
    Link link;
    OtlpReader message(links_[place_.number]);
    while (message.next()) switch (message.tag_and_type()) {
        case nested(otlp::link::trace_id):
          take_id(link.trace_id, message.get_view());
          break;
        case nested(otlp::link::span_id):
          take_id(link.span_id, message.get_view());
          break;
        default:
          message.skip();
      }
    link_places_.push_back(reading_.link(link));
  }
  place_.part = nullptr;
}

}  // namespace vitrine::profile
