// Payloads of process contexts: msgpack (version 1) and protobuf (version 2).

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <protozero/pbf_reader.hpp>

#include "base/limits.hpp"
#include "format/process_context.hpp"

namespace vitrine::format {
namespace {

// Process context payload, version 1 (development): a msgpack map of attributes.

using Json = nlohmann::json;

/// Builds values from the events of nlohmann's parser, which allocates nothing by announced
/// lengths. A handler that returns false ends the parse, before the parser recurses deeper.
class Handler : public nlohmann::json_sax<Json> {
 public:
  ProcessContext context;
  Error error{ErrorCode::malformed, "process context: the msgpack payload is not a map", {}};

  bool null() override { return add({}); }
  bool boolean(bool value) override { return add({value}); }
  bool number_integer(std::int64_t value) override { return add({value}); }
  bool number_unsigned(std::uint64_t value) override {
    // OpenTelemetry has no unsigned integers; the digits are what the publisher meant.
    if (value > std::numeric_limits<std::int64_t>::max()) return add({std::to_string(value)});
    return add({static_cast<std::int64_t>(value)});
  }
  bool number_float(double value, const std::string&) override { return add({value}); }
  bool string(std::string& value) override { return add({std::move(value)}); }
  bool binary(Json::binary_t& value) override {
    return add({Blob{std::string(value.begin(), value.end())}});
  }

  bool key(std::string& name) override {
    open_.back().key = std::move(name);
    return true;
  }
  bool start_object(std::size_t) override { return open({KeyValueList{}}); }
  bool start_array(std::size_t) override { return !open_.empty() && open({ValueArray{}}); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    error.message = fmt::format("process context: invalid msgpack payload at byte {}", position);
    return false;
  }

 private:
  struct Container {
    AnyValue value;
    std::string key;  ///< of a map: the one whose value comes next
  };

  bool add(AnyValue value) {
    if (open_.empty()) return false;
    Container& into = open_.back();
    if (auto* array = std::get_if<ValueArray>(&into.value.data)) {
      if (room(array->size())) array->push_back(std::move(value));
    } else if (auto* list = std::get_if<KeyValueList>(&into.value.data)) {
      if (room(list->size())) list->push_back({std::move(into.key), std::move(value)});
    }
    return true;
  }

  bool room(std::size_t size) {
    if (size < limits::context_attributes) return true;
    note_cut(context, "attributes", fmt::format("kept {} of a list", limits::context_attributes));
    return false;
  }

  bool open(AnyValue container) {
    if (open_.size() > limits::context_nesting) {
      error = {ErrorCode::limit,
               fmt::format("process context: nested deeper than {}", limits::context_nesting),
               {}};
      return false;
    }
    open_.push_back({std::move(container), {}});
    return true;
  }

  bool close() {
    AnyValue done = std::move(open_.back().value);
    open_.pop_back();
    if (!open_.empty()) return add(std::move(done));
    context.resource = std::move(std::get<KeyValueList>(done.data));
    return true;
  }

  std::vector<Container> open_;
};

}  // namespace

Result<ProcessContext> decode_msgpack(std::span<const std::byte> payload) {
  Handler handler;
  const auto* first = reinterpret_cast<const std::uint8_t*>(payload.data());
  if (!Json::sax_parse(first, first + payload.size(), &handler, Json::input_format_t::msgpack))
    return tl::unexpected(std::move(handler.error));
  return std::move(handler.context);
}

namespace {

// Process context payload, version 2: protobuf ProcessContext, or in publishers of before
// 2026-02-18 a bare Resource. Wire table: docs/formats/process-context.md, "Payload".

using protozero::pbf_reader;
using Wire = protozero::pbf_wire_type;

/// A Resource whose field 2 has a length: it is a KeyValue, so the payload has no wrapper.
struct NotAResource : std::exception {
  const char* what() const noexcept override { return "field 1 is not a Resource"; }
};

constexpr std::uint32_t is(std::uint32_t field, Wire wire) {
  return protozero::tag_and_type(field, wire);
}

/// protozero checks lengths, varints and tags, and throws; groups have no wire type it knows. A
/// known field with another wire type is skipped like an unknown one, as protobuf readers do.
class Decoder {
 public:
  void process_context(pbf_reader message) {
    while (message.next()) switch (message.tag_and_type()) {
        case is(1, Wire::length_delimited):
          resource(message.get_message());
          break;
        case is(2, Wire::length_delimited):
          key_value(message.get_message(), context.attributes, 0);
          break;
        default:
          message.skip();
      }
  }

  /// Called again for the same field it merges, as protobuf does.
  void resource(pbf_reader message) {
    while (message.next()) switch (message.tag_and_type()) {
        case is(1, Wire::length_delimited):
          key_value(message.get_message(), context.resource, 0);
          break;
        case is(2, Wire::varint):
          context.dropped_attributes_count = message.get_uint32();
          break;
        case is(2, Wire::length_delimited):
          throw NotAResource();
        case is(3, Wire::length_delimited):
          entity_ref(message.get_message());
          break;
        default:
          message.skip();
      }
  }

  ProcessContext context;

 private:
  template <class List>
  bool full(const List& list) {
    if (list.size() < limits::context_attributes) return false;
    note_cut(context, "attributes", fmt::format("kept {} of a list", limits::context_attributes));
    return true;
  }

  void key_value(pbf_reader message, KeyValueList& list, std::size_t depth) {
    if (full(list)) return;
    KeyValue& entry = list.emplace_back();
    while (message.next()) switch (message.tag_and_type()) {
        case is(1, Wire::length_delimited):
          entry.key = message.get_string();
          break;
        case is(2, Wire::length_delimited):
          any_value(message.get_message(), entry.value, depth + 1);
          break;
        default:
          message.skip();
      }
  }

  /// The member of a oneof that came last counts; a message member that comes again merges.
  template <class Member>
  static Member& member(AnyValue& value) {
    if (!std::holds_alternative<Member>(value.data)) value.data.emplace<Member>();
    return std::get<Member>(value.data);
  }

  void any_value(pbf_reader message, AnyValue& value, std::size_t depth) {
    if (depth > limits::context_nesting) {
      note_cut(context, "nesting", fmt::format("kept {} levels", limits::context_nesting));
      return;
    }
    while (message.next()) switch (message.tag_and_type()) {
        case is(1, Wire::length_delimited):
          value.data = message.get_string();
          break;
        case is(2, Wire::varint):
          value.data = message.get_uint64() != 0;
          break;
        case is(3, Wire::varint):
          value.data = message.get_int64();
          break;
        case is(4, Wire::fixed64):
          value.data = message.get_double();
          break;
        case is(5, Wire::length_delimited):
          array(message.get_message(), member<ValueArray>(value), depth);
          break;
        case is(6, Wire::length_delimited):
          list(message.get_message(), member<KeyValueList>(value), depth);
          break;
        case is(7, Wire::length_delimited):
          value.data = Blob{message.get_string()};
          break;
        default:
          message.skip();
      }
  }

  void array(pbf_reader message, ValueArray& values, std::size_t depth) {
    while (message.next(1, Wire::length_delimited)) {
      const pbf_reader element = message.get_message();
      if (!full(values)) any_value(element, values.emplace_back(), depth + 1);
    }
  }

  void list(pbf_reader message, KeyValueList& values, std::size_t depth) {
    while (message.next(1, Wire::length_delimited)) key_value(message.get_message(), values, depth);
  }

  void entity_ref(pbf_reader message) {
    if (full(context.entity_refs)) return;
    EntityRef& entity = context.entity_refs.emplace_back();
    while (message.next()) switch (message.tag_and_type()) {
        case is(1, Wire::length_delimited):
          entity.schema_url = message.get_string();
          break;
        case is(2, Wire::length_delimited):
          entity.type = message.get_string();
          break;
        case is(3, Wire::length_delimited):
          if (!full(entity.id_keys))
            entity.id_keys.push_back(message.get_string());
          else
            message.skip();
          break;
        case is(4, Wire::length_delimited):
          if (!full(entity.description_keys))
            entity.description_keys.push_back(message.get_string());
          else
            message.skip();
          break;
        default:
          message.skip();
      }
  }
};

bool printable(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
  });
}

/// A bare Resource, if the payload is one in every byte.
std::optional<ProcessContext> as_bare_resource(pbf_reader payload) try {
  Decoder decoder;
  decoder.resource(payload);
  const KeyValueList& keys = decoder.context.resource;
  if (keys.empty() || !std::all_of(keys.begin(), keys.end(),
                                   [](const KeyValue& entry) { return printable(entry.key); }))
    return std::nullopt;
  decoder.context.bare_resource = true;
  return std::move(decoder.context);
} catch (const std::bad_alloc&) {
  throw;
} catch (const std::exception&) {
  return std::nullopt;
}

/// What is wrong with the bytes.
const char* describe(const std::exception& error) {
  if (dynamic_cast<const protozero::end_of_buffer_exception*>(&error) != nullptr)
    return "a field ends after the message that it is part of";
  if (dynamic_cast<const protozero::unknown_pbf_wire_type_exception*>(&error) != nullptr)
    return "a field has wire type 3 or 4 (a group), or one that does not exist";
  if (dynamic_cast<const protozero::varint_too_long_exception*>(&error) != nullptr)
    return "a varint has more than 10 bytes";
  if (dynamic_cast<const protozero::invalid_tag_exception*>(&error) != nullptr)
    return "a field has a number that is not permitted";
  return error.what();
}

}  // namespace

Result<ProcessContext> decode_protobuf(std::span<const std::byte> payload) {
  const pbf_reader reader(reinterpret_cast<const char*>(payload.data()), payload.size());
  try {
    Decoder decoder;
    decoder.process_context(reader);
    return std::move(decoder.context);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    if (auto bare = as_bare_resource(reader)) return std::move(*bare);
    return fail(
        ErrorCode::malformed,
        fmt::format("process context: its payload of {} bytes is not valid protobuf: {}",
                    payload.size(), describe(error)),
        "the library that publishes it is at fault: OTEP-4719 wants a ProcessContext message");
  }
}

}  // namespace vitrine::format
