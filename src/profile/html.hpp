// The pieces of the JSON in the page (html.cpp): columns of numbers, and texts that are there once.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/interner.hpp"
#include "profile/profile.hpp"

namespace vitrine::profile {

/// web/dist/page.html, as the build embeds it (cmake/VitrineEmbed.cmake).
std::string_view page_template();

}  // namespace vitrine::profile

namespace vitrine::profile::page {

inline constexpr std::uint64_t exact =
    (std::uint64_t{1} << 53) - 1;  // what a JSON number holds in a page

/// A JSON text of any bytes that cannot end the script element it is in, nor open a comment:
/// only ASCII, no '<', and what is no UTF-8 replaced.
inline std::string text(std::string_view bytes) {
  const std::string json =
      nlohmann::json(bytes).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  std::string safe;
  safe.reserve(json.size());
  for (const char c : json)
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  return safe;
}

/// The numbers of one column, as JSON.
class Column {
 public:
  void add(std::uint64_t value) { put(fmt::format_int(std::min(value, exact)).c_str()); }
  /// An index, or -1.
  void add_index(Index index) {
    if (index == none)
      put("-1");
    else
      add(index);
  }
  [[nodiscard]] std::string json() const { return "[" + body_ + "]"; }

 private:
  void put(const char* number) {
    if (!body_.empty()) body_ += ',';
    body_ += number;
  }
  std::string body_;
};

/// `{"a":[…],"b":[…]}`
inline std::string object(const std::vector<std::pair<std::string_view, std::string>>& members) {
  std::string json = "{";
  for (const auto& [name, value] : members)
    json += fmt::format("{}\"{}\":{}", json.size() > 1 ? "," : "", name, value);
  return json + "}";
}

inline std::string texts(const std::vector<std::string>& values) {
  std::string json = "[";
  for (const std::string& value : values) json += (json.size() > 1 ? "," : "") + text(value);
  return json + "]";
}

/// Every text once.
class Strings {
 public:
  Index of(std::string_view value) { return all_.add(value); }
  [[nodiscard]] std::string json() const { return texts(all_.values()); }

 private:
  StringInterner all_;
};

}  // namespace vitrine::profile::page
