// A configuration file: TOML (https://toml.io/en/v1.0.0), as keys with values and places. What the
// values mean is for the caller.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace vitrine::agent {

/// Tables that repeat: each has a buffer in the kernel.
inline constexpr std::size_t max_repeated_tables = 32;

enum class ValueKind : std::uint8_t {
  text,    ///< a string
  number,  ///< an integer
  size,    ///< an integer, or a string such as "1MiB"
  flag,    ///< true or false
  list,    ///< strings, or one string
};

/// A key that a file may have.
struct KnownKey {
  std::string_view name;  ///< with its table: "export.url"
  ValueKind kind;
  char joint = 0;  ///< of a list: values are one word with these between them
};

struct ConfiguredKey {
  std::string name;
  std::vector<std::string> values;  ///< one, but of a list; of a flag "true" or "false"
  std::uint32_t line = 0, column = 0;
  std::size_t table = 0;  ///< of tables that repeat: which one
};

/// "agent.toml:3:9", for messages.
std::string place_of(std::string_view file, std::uint32_t line, std::uint32_t column);

/// In the order of `known`. `repeated`: the tables of which a file may have several, as [[trace]].
/// `file`: its name for messages. Errors: usage (no TOML; a key that is
/// unknown, with the nearest known one; a value of another kind), with line and column.
Result<std::vector<ConfiguredKey>> parse_configuration(std::string_view text, std::string_view file,
                                                       std::span<const KnownKey> known,
                                                       std::string_view repeated = {});

/// Of a file. Errors: not_found, not_permitted, failed, limit; and the above.
Result<std::vector<ConfiguredKey>> read_configuration(const std::string& path,
                                                      std::span<const KnownKey> known,
                                                      std::string_view repeated = {});

/// A value as TOML spells it.
std::string toml_value(ValueKind kind, std::span<const std::string> values);

}  // namespace vitrine::agent
