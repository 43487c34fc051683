#include "telemetry/attributes.hpp"

#include "base/text.hpp"

namespace vitrine::telemetry {
namespace {

void add_text(Writer& message, Tag tag, std::string_view text) {
  if (is_utf8(text))
    message.add_string(tag, text.data(), text.size());
  else
    message.add_string(tag, replaced_utf8(text));
}

struct ValueWriter {
  Writer& message;

  void operator()(const std::string& text) const {
    add_text(message, fields::any_value::string_value, text);
  }
  void operator()(std::int64_t number) const {
    message.add_int64(fields::any_value::int_value, number);
  }
  void operator()(double number) const {
    message.add_double(fields::any_value::double_value, number);
  }
  void operator()(bool truth) const { message.add_bool(fields::any_value::bool_value, truth); }
  void operator()(const std::vector<std::string>& texts) const {
    std::string list;
    Writer array(list);
    for (const std::string& text : texts) {
      Writer one(array, fields::array_value::values);
      add_text(one, fields::any_value::string_value, text);
    }
    message.add_message(fields::any_value::array_value, list);
  }
  void operator()(const Blob& blob) const {
    message.add_bytes(fields::any_value::bytes_value, blob.bytes);
  }
};

}  // namespace

std::string encode_value(const Value& value) {
  std::string encoded;
  Writer message(encoded);
  std::visit(ValueWriter{message}, value);
  return encoded;
}

void add_attribute(Writer& parent, Tag tag, std::string_view key, const Value& value) {
  Writer pair(parent, tag);
  add_text(pair, fields::key_value::key, key);
  pair.add_message(fields::key_value::value, encode_value(value));
}

void add_attributes(Writer& parent, Tag tag, const Attributes& attributes) {
  for (const Attribute& one : attributes) add_attribute(parent, tag, one.key, one.value);
}

std::string encode_resource(const Attributes& attributes) {
  std::string encoded;
  Writer message(encoded);
  add_attributes(message, fields::resource::attributes, attributes);
  return encoded;
}

void add_scope(Writer& parent, Tag tag) {
  Writer scope(parent, tag);
  scope.add_string(fields::scope::name, "vitrine");
  scope.add_string(fields::scope::version, VITRINE_VERSION);
}

}  // namespace vitrine::telemetry
