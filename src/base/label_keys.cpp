#include "base/label_keys.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace vitrine {

bool KeyNames::is_taken(std::string_view name) const {
  return name.empty() || taken_.contains(name) ||
         (!reserved_prefix_.empty() && name.starts_with(reserved_prefix_));
}

std::string KeyNames::add(std::string_view key) {
  std::string name = is_utf8(key) ? std::string(key) : replaced_utf8(key);
  if (is_taken(name)) {
    name.insert(0, renamed_key_prefix);
    const std::string base = name;
    for (std::uint64_t& number = numbers_[base]; is_taken(name);)
      name = fmt::format("{}.{}", base, ++number);
  }
  taken_.insert(name);
  return name;
}

std::string metric_label(std::string_view value) {
  if (is_utf8(value) && value.find("\\x") == value.npos) return std::string(value);
  std::string out;
  while (!value.empty()) {
    const auto point = first_code_point(value);
    const std::size_t length = point ? point->bytes : 1;
    if (!point)
      out += fmt::format("\\x{:02x}", static_cast<std::uint8_t>(value[0]));
    else if (point->value == U'\\')
      out += "\\\\";
    else
      out += value.substr(0, length);
    value.remove_prefix(length);
  }
  return out;
}

namespace {

std::string in_quotes(std::string_view text) {
  return fmt::format("\"{}\"", text);
}

std::string_view without_quotes(std::string_view text) {
  while (text.size() >= 2 && text.front() == '"' && text.back() == '"')
    text = text.substr(1, text.size() - 2);
  return text;
}

}  // namespace

std::string group_name(const std::optional<std::string>& value) {
  if (!value) return std::string(no_value);
  return without_quotes(*value) == no_value ? in_quotes(*value) : *value;
}

std::optional<std::string> value_of_group(std::string_view name) {
  if (name == no_value) return std::nullopt;
  if (without_quotes(name) == no_value) name = name.substr(1, name.size() - 2);
  return std::string(name);
}

bool reads_like_mark(std::string_view value) {
  return value == no_value || value.empty() || value == "-" || value == "?";
}

std::string group_cell(std::string_view name) {
  const std::string_view inner = without_quotes(name);
  return inner != no_value && reads_like_mark(inner) ? in_quotes(name) : std::string(name);
}

}  // namespace vitrine
