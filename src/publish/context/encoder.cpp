#include "publish/context/encoder.hpp"

#include <algorithm>
#include <cstring>

#include "publish/base/bytes.hpp"
#include "publish/context/environment.hpp"

namespace vitrine::context {
namespace {

enum Wire : std::uint8_t { varint = 0, fixed64 = 1, length_delimited = 2 };

constexpr char tag(std::uint8_t field, Wire wire) {
  return static_cast<char>(field << 3 | wire);  // every field number here is below 16
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

class Varint {
 public:
  explicit Varint(std::uint64_t value) noexcept {
    for (; value >= 0x80; value >>= 7) bytes_[size_++] = static_cast<char>(value | 0x80);
    bytes_[size_++] = static_cast<char>(value);
  }
  [[nodiscard]] std::string_view view() const noexcept { return {bytes_, size_}; }

 private:
  char bytes_[10];
  std::size_t size_ = 0;
};

/// A length-delimited field: what is appended while this lives.
class Message {
 public:
  Message(Buffer& out, char tag) noexcept : out_(out) {
    out_.append(tag);
    start_ = out_.size();
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  ~Message() { out_.insert(start_, Varint(out_.size() - start_).view()); }

 private:
  Buffer& out_;
  std::size_t start_;
};

void append_bytes(Buffer& out, char tag, std::string_view bytes) noexcept {
  out.append(tag);
  out.append(Varint(bytes.size()).view());
  out.append(bytes);
}

void append_value(Buffer& out, std::string_view text) noexcept {
  append_bytes(out, field::string_value, text);
}

void append_value(Buffer& out, bool flag) noexcept {
  out.append(field::bool_value);
  out.append(flag ? '\1' : '\0');
}

void append_value(Buffer& out, std::int64_t number) noexcept {
  out.append(field::int_value);
  out.append(Varint(static_cast<std::uint64_t>(number)).view());  // plain, not zigzag
}

void append_value(Buffer& out, double number) noexcept {
  std::uint64_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  out.append(field::double_value);
  for (int shift = 0; shift < 64; shift += 8) out.append(static_cast<char>(bits >> shift));
}

/// Appends what `value` holds if that is a T, or a list of them.
template <class T, class As = T>
void append_if(Buffer& out, const Value::Variant& value) noexcept {
  if (const auto* one = std::get_if<T>(&value)) {
    append_value(out, As(*one));
  } else if (const auto* several = std::get_if<std::vector<T>>(&value)) {
    const Message array(out, field::array_value);
    for (const auto& element : *several) {
      const Message any(out, field::array_values);
      append_value(out, As(element));
    }
  }
}

/// The next field, which must be length-delimited, of bytes that were encoded here.
struct Field {
  char tag;
  std::string_view body;
};

Field take(std::string_view& fields) noexcept {
  const char tag = fields[0];
  std::size_t size = 0, at = 1;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(fields[at++]);
    size |= static_cast<std::size_t>(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  const std::string_view body = publish::part_of(fields, at, size);
  fields.remove_prefix(at + size);
  return {tag, body};
}

std::string_view key_of(std::string_view key_value) noexcept {
  return take(key_value).body;
}

constexpr std::size_t shown_key_max = 64;

Status too_large(std::string_view what, std::string_view key, std::string_view end,
                 std::size_t bytes, std::size_t max) noexcept {
  return failure(Errc::too_large, {what, key, end, " has ", Decimal(bytes).view(),
                                   " bytes, the limit is ", Decimal(max).view()});
}

/// Checks a text, described in messages as `what` and `key` in quotation marks.
Status check_text(std::string_view what, std::string_view key, std::string_view text) noexcept {
  key = publish::part_of(key, 0, publish::utf8_prefix(key, shown_key_max));
  if (text.size() > string_max) return too_large(what, key, "\"", text.size(), string_max);
  if (!publish::is_utf8(text))
    return failure(Errc::invalid_attribute, {what, key, "\" is not valid UTF-8"});
  return {};
}

Status check(const AttributeList& attributes) noexcept {
  for (std::string_view rest = attributes.fields().view(); !rest.empty();) {
    std::string_view key_value = take(rest).body;
    const std::string_view key = take(key_value).body;
    if (key.empty()) return {Errc::invalid_attribute, "an attribute has an empty key"};
    if (const Status bad = check_text("the key \"", key, key); !bad) return bad;
    std::string_view value = take(key_value).body;
    if (value[0] == field::string_value) {
      if (const Status bad = check_text("the value of \"", key, take(value).body); !bad) return bad;
    } else if (value[0] == field::array_value) {
      for (std::string_view elements = take(value).body; !elements.empty();) {
        std::string_view element = take(elements).body;
        if (element[0] != field::string_value) break;
        const Status bad = check_text("an element of the value of \"", key, take(element).body);
        if (!bad) return bad;
      }
    }
  }
  return {};
}

}  // namespace

void TextList::add(std::string_view text) noexcept {
  ++size_;
  const Message any(values_, field::array_values);
  append_value(values_, text);
}

std::size_t TextList::find(std::string_view text) const noexcept {
  std::size_t position = 0;
  for (std::string_view rest = values_.view(); !rest.empty(); ++position) {
    std::string_view value = take(rest).body;
    if (take(value).body == text) break;
  }
  return position;
}

void TextList::remove_last(std::size_t bytes_before) noexcept {
  values_.truncate(bytes_before);
  --size_;
}

template <class Write>
void AttributeList::put(std::string_view key, Write&& write_value) noexcept {
  const std::size_t added_at = fields_.size();
  {
    const Message attribute(fields_, field::resource_attributes);
    append_bytes(fields_, field::key, key);
    const Message value(fields_, field::value);
    write_value();
  }
  replace_earlier(added_at);
}

/// Moves the attribute at the end of the list to where an earlier one has its key.
void AttributeList::replace_earlier(std::size_t added_at) noexcept {
  if (!fields_.ok()) return;
  const std::string_view all = fields_.view();
  std::string_view added = publish::part_of(all, added_at);
  const std::string_view key = key_of(take(added).body);
  for (std::string_view rest = publish::part_of(all, 0, added_at); !rest.empty();) {
    const auto at = static_cast<std::size_t>(rest.data() - all.data());
    if (key_of(take(rest).body) != key) continue;
    const std::size_t size = added_at - rest.size() - at;
    fields_.erase(at, size);
    char* data = fields_.data();
    std::rotate(data + at, data + added_at - size, data + fields_.size());
    return;
  }
}

void AttributeList::set(const Attribute& attribute) noexcept {
  put(attribute.key, [&] {
    const Value::Variant& value = attribute.value.get();
    append_if<std::string, std::string_view>(fields_, value);
    append_if<bool>(fields_, value);
    append_if<std::int64_t>(fields_, value);
    append_if<double>(fields_, value);
  });
}

void AttributeList::set(std::string_view key, std::string_view text) noexcept {
  put(key, [&] { append_value(fields_, text); });
}

void AttributeList::set(std::string_view key, std::int64_t number) noexcept {
  put(key, [&] { append_value(fields_, number); });
}

void AttributeList::set(std::string_view key, const TextList& texts) noexcept {
  put(key, [&] { append_bytes(fields_, field::array_value, texts.values().view()); });
}

void AttributeList::set_all(const AttributeList& stronger) noexcept {
  for (std::string_view rest = stronger.fields_.view(); !rest.empty();) {
    const std::size_t added_at = fields_.size();
    append_bytes(fields_, field::resource_attributes, take(rest).body);
    replace_earlier(added_at);
  }
}

Status encode(const AttributeList& resource, const AttributeList& attributes,
              Buffer& payload) noexcept {
  if (!resource.ok() || !attributes.ok()) return no_memory();
  if (const Status bad = check(resource); !bad) return bad;
  if (const Status bad = check(attributes); !bad) return bad;
  if (resource.fields().size() > resource_max)
    return too_large("the resource", "", "", resource.fields().size(), resource_max);

  payload.truncate(0);
  append_bytes(payload, field::context_resource, resource.fields().view());
  for (std::string_view rest = attributes.fields().view(); !rest.empty();)
    append_bytes(payload, field::context_attributes, take(rest).body);
  if (!payload.ok()) return no_memory();
  if (payload.size() > payload_max)
    return too_large("the process context", "", "", payload.size(), payload_max);
  return {};
}

}  // namespace vitrine::context
