// Keys that labels have in our output where their own would stand for something else.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace vitrine {

/// Before the key of a label that is called like a field of the output or a label of a waker.
inline constexpr std::string_view renamed_key_prefix = "label.";

/// Before the keys of the labels of the thread that woke another.
inline constexpr std::string_view waker_key_prefix = "waker.";

/// Names of keys in a format: valid UTF-8, none empty, each of its own, and none that the format uses
/// itself. A key that may not stay becomes "label.KEY", then "label.KEY.1" and so on.
class KeyNames {
 public:
  /// `reserved`: names the format uses; `reserved_prefix`: so do all that begin so (empty: none).
  explicit KeyNames(std::set<std::string, std::less<>> reserved = {},
                    std::string_view reserved_prefix = {})
      : taken_(std::move(reserved)), reserved_prefix_(reserved_prefix) {}

  [[nodiscard]] bool is_taken(std::string_view name) const;
  /// The name of `key`, any bytes; no later one is the same.
  std::string add(std::string_view key);

 private:
  std::set<std::string, std::less<>> taken_;
  std::string reserved_prefix_;
  /// By name, as thousands of keys may look alike once they are UTF-8.
  std::map<std::string, std::uint64_t, std::less<>> numbers_;
};

/// Any bytes as the UTF-8 of a label of a metric: bytes that are none as \xff, and then each `\` twice. Text
/// stays as it is, unless it reads like such bytes: no two values are the same label.
std::string metric_label(std::string_view value);

/// What groups have in place of the value of a label that is not set.
inline constexpr std::string_view no_value = "(none)";

/// A value as the name of its group, or no_value. One that reads like no_value is in quotes, and so is
/// that one in quotes: no two groups have the same name.
std::string group_name(const std::optional<std::string>& value);
/// The value of the group with this name.
std::optional<std::string> value_of_group(std::string_view name);

/// Whether a value reads like what tables have in its place: no_value, "-", "?", nothing at all.
bool reads_like_mark(std::string_view value);
/// The name of a group as a cell of a table: in quotes where it reads like another mark than no_value.
std::string group_cell(std::string_view name);

}  // namespace vitrine
