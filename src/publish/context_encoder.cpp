#include "publish/context_encoder.hpp"

#include <cstdint>
#include <cstring>

namespace vitrine::context {
namespace {

enum Wire : std::uint8_t { varint = 0, fixed64 = 1, length_delimited = 2 };

constexpr std::uint8_t tag(std::uint8_t field, Wire wire) {
  return static_cast<std::uint8_t>(field << 3 | wire);  // every field number here is below 16
}

namespace field {
constexpr auto context_resource = tag(1, length_delimited);
constexpr auto context_attributes = tag(2, length_delimited);
constexpr auto resource_attributes = tag(1, length_delimited);
constexpr auto key = tag(1, length_delimited);
constexpr auto value = tag(2, length_delimited);
constexpr auto string_value = tag(1, length_delimited);
constexpr auto bool_value = tag(2, varint);
constexpr auto int_value = tag(3, varint);
constexpr auto double_value = tag(4, fixed64);
constexpr auto array_value = tag(5, length_delimited);
constexpr auto array_values = tag(1, length_delimited);
}  // namespace field

void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void append_bytes(std::string& out, std::uint8_t tag, std::string_view bytes) {
  out.push_back(static_cast<char>(tag));
  append_varint(out, bytes.size());
  out.append(bytes);
}

std::string any_value(const std::string& text) {
  std::string out;
  append_bytes(out, field::string_value, text);
  return out;
}

std::string any_value(bool flag) {
  return {static_cast<char>(field::bool_value), flag ? '\1' : '\0'};
}

std::string any_value(std::int64_t number) {
  std::string out(1, static_cast<char>(field::int_value));
  append_varint(out, static_cast<std::uint64_t>(number));  // plain, not zigzag
  return out;
}

std::string any_value(double number) {
  std::uint64_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  std::string out(1, static_cast<char>(field::double_value));
  for (int shift = 0; shift < 64; shift += 8) out.push_back(static_cast<char>(bits >> shift));
  return out;
}

template <class T>
std::string any_value(const std::vector<T>& elements) {
  std::string array;
  for (const auto& element : elements)
    append_bytes(array, field::array_values, any_value(static_cast<const T&>(element)));
  std::string out;
  append_bytes(out, field::array_value, array);
  return out;
}

void append_attributes(std::string& out, std::uint8_t tag,
                       const std::vector<Attribute>& attributes) {
  for (const Attribute& attribute : attributes) {
    std::string key_value;
    append_bytes(key_value, field::key, attribute.key);
    append_bytes(key_value, field::value,
                 std::visit([](const auto& v) { return any_value(v); }, attribute.value.get()));
    append_bytes(out, tag, key_value);
  }
}

Status too_large(const std::string& what, std::size_t bytes, std::size_t max) {
  return {Errc::too_large,
          what + " has " + std::to_string(bytes) + " bytes, the limit is " + std::to_string(max)};
}

Status check_text(const std::string& what, const std::string& text) {
  if (text.size() > string_max) return too_large(what, text.size(), string_max);
  if (!is_utf8(text)) return {Errc::invalid_attribute, what + " is not valid UTF-8"};
  return {};
}

Status check(const std::vector<Attribute>& attributes) {
  for (const auto& [key, value] : attributes) {
    if (key.empty()) return {Errc::invalid_attribute, "an attribute has an empty key"};
    if (Status bad = check_text("the key \"" + key.substr(0, 64) + "\"", key); !bad) return bad;
    const std::string what = "the value of \"" + key + "\"";
    if (const auto* text = std::get_if<std::string>(&value.get())) {
      if (Status bad = check_text(what, *text); !bad) return bad;
    } else if (const auto* texts = std::get_if<std::vector<std::string>>(&value.get())) {
      for (const std::string& element : *texts)
        if (Status bad = check_text("an element of " + what, element); !bad) return bad;
    }
  }
  return {};
}

}  // namespace

Status encode(const std::vector<Attribute>& resource, const std::vector<Attribute>& attributes,
              std::string& payload) {
  if (Status bad = check(resource); !bad) return bad;
  if (Status bad = check(attributes); !bad) return bad;

  std::string message;
  append_attributes(message, field::resource_attributes, resource);
  if (message.size() > resource_max) return too_large("the resource", message.size(), resource_max);

  payload.clear();
  append_bytes(payload, field::context_resource, message);
  append_attributes(payload, field::context_attributes, attributes);
  if (payload.size() > payload_max)
    return too_large("the process context", payload.size(), payload_max);
  return {};
}

bool is_utf8(std::string_view text) noexcept {
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const end = at + text.size();
  while (at != end) {
    const unsigned lead = *at++;
    if (lead < 0x80) continue;
    const int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4 || end - at < more) return false;
    // The second byte alone rules out overlong forms, surrogates, and what lies past U+10FFFF.
    const unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (*at < low || *at > high) return false;
    for (int i = 1; i < more; ++i)
      if ((at[i] & 0xc0) != 0x80) return false;
    at += more;
  }
  return true;
}

}  // namespace vitrine::context
