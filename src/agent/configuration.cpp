#include "agent/configuration.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/file_descriptor.hpp"
#include "base/limits.hpp"
#include "base/text.hpp"
#include "sandbox/files.hpp"

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace vitrine::agent {
namespace {

std::string_view name_of(ValueKind kind) {
  switch (kind) {
    case ValueKind::text:
      return "a string";
    case ValueKind::number:
      return "an integer";
    case ValueKind::size:
      return "an integer or a size such as \"1MiB\"";
    case ValueKind::flag:
      return "true or false";
    case ValueKind::list:
      return "a list of strings";
  }
  return {};
}

/// Nothing: it is of another kind.
std::optional<std::vector<std::string>> values_of(const toml::node& node, ValueKind kind) {
  using Values = std::vector<std::string>;
  const auto* text = node.as_string();
  if (kind == ValueKind::flag) {
    const auto* flag = node.as_boolean();
    return flag == nullptr ? std::nullopt : std::optional(Values{**flag ? "true" : "false"});
  }
  if (const auto* number = node.as_integer())
    return kind == ValueKind::number || kind == ValueKind::size
               ? std::optional(Values{std::to_string(**number)})
               : std::nullopt;
  if (text != nullptr)
    return kind == ValueKind::number ? std::nullopt : std::optional(Values{**text});
  const auto* list = node.as_array();
  if (kind != ValueKind::list || list == nullptr) return std::nullopt;
  Values values;
  for (const toml::node& element : *list) {
    if (element.as_string() == nullptr) return std::nullopt;
    values.push_back(**element.as_string());
  }
  return values;
}

class Walk {
 public:
  Walk(std::string_view file, std::span<const KnownKey> known, std::string_view repeated)
      : file_(file), known_(known), repeated_(repeated) {}

  Result<void> walk(const toml::table& table, const std::string& prefix, std::size_t number = 0) {
    for (const auto& [key, node] : table) {
      const std::string name = prefix + std::string(key.str());
      const auto at = key.source().begin;
      if (!repeated_.empty() && name == repeated_) {
        TRY(walk_all(node, name));
        continue;
      }
      if (const auto* inner = node.as_table(); inner != nullptr && is_prefix(name + '.')) {
        TRY(walk(*inner, name + '.'));
        continue;
      }
      const auto its = std::ranges::find(known_, name, &KnownKey::name);
      if (its == known_.end()) return unknown(name, at);
      auto values = values_of(node, its->kind);
      const auto value_at = node.source().begin;
      if (!values)
        return fail(ErrorCode::usage,
                    fmt::format("{}: {} takes {}", place(value_at), name, name_of(its->kind)),
                    "`vitrine agent --check` without a file shows every key");
      keys_.push_back({name, std::move(*values), value_at.line, value_at.column, number});
    }
    return {};
  }

  /// Each of the tables that repeat.
  Result<void> walk_all(const toml::node& node, const std::string& name) {
    const auto* tables = node.as_array();
    if (tables == nullptr || !tables->is_array_of_tables())
      return fail(ErrorCode::usage,
                  fmt::format("{}: {} is a list of tables", place(node.source().begin), name),
                  fmt::format("begin each of them with [[{}]]", name));
    if (tables->size() > max_repeated_tables)
      return fail(ErrorCode::limit,
                  fmt::format("{}: more than {} [[{}]]", place(node.source().begin),
                              max_repeated_tables, name));
    for (std::size_t i = 0; i < tables->size(); ++i)
      TRY(walk(*(*tables)[i].as_table(), name + '.', i));
    return {};
  }

  std::vector<ConfiguredKey> take() {
    const auto place_in_table = [&](const ConfiguredKey& key) {
      const auto its = std::ranges::find(known_, key.name, &KnownKey::name) - known_.begin();
      return std::pair(key.table, its);
    };
    std::ranges::sort(keys_, {}, place_in_table);
    return std::move(keys_);
  }

 private:
  [[nodiscard]] bool is_prefix(std::string_view name) const {
    return std::ranges::any_of(known_,
                               [&](const KnownKey& key) { return key.name.starts_with(name); });
  }
  [[nodiscard]] std::string place(const toml::source_position& at) const {
    return place_of(file_, at.line, at.column);
  }
  /// Of the name of a table, a slip or two away; empty: there is none.
  [[nodiscard]] std::string nearest_table(std::string_view name) const {
    constexpr std::size_t max_slips = 2;
    for (const KnownKey& key : known_) {
      const std::string_view table = key.name.substr(0, key.name.find('.'));
      if (name.find('.') == name.npos && spelling_distance(name, table) <= max_slips)
        return table == repeated_ ? fmt::format("[[{}]]", table) : fmt::format("[{}]", table);
    }
    return {};
  }
  [[nodiscard]] tl::unexpected<Error> unknown(const std::string& name,
                                              const toml::source_position& at) const {
    const auto far = [&](const KnownKey& key) { return spelling_distance(name, key.name); };
    const auto nearest = std::ranges::min_element(known_, {}, far);
    std::string remedy;
    // The same key of another table, or a slip or two away.
    const auto leaf = [](std::string_view key) { return key.substr(key.rfind('.') + 1); };
    const auto same = std::ranges::find_if(
        known_, [&](const KnownKey& key) { return leaf(key.name) == leaf(name); });
    const std::string table = nearest_table(name);
    if (!table.empty())
      remedy = fmt::format("did you mean {}? ", table);
    else if (same != known_.end())
      remedy = fmt::format("did you mean {}? ", same->name);
    else if (nearest != known_.end() && far(*nearest) <= std::max<std::size_t>(2, name.size() / 3))
      remedy = fmt::format("did you mean {}? ", nearest->name);
    return fail(ErrorCode::usage, fmt::format("{}: unknown key {}", place(at), name),
                remedy + "`vitrine agent --check` without a file shows every key");
  }

  std::string_view file_;
  std::span<const KnownKey> known_;
  std::string_view repeated_;
  std::vector<ConfiguredKey> keys_;
};

/// The first line with more dots than any key has, outside of quotes and comments; 0: none. toml++ takes stack for each
/// part of a key such as `a.b.c`, and has no bound of its own.
std::uint32_t line_of_deep_key(std::string_view text) {
  constexpr int max_dots = 256;
  std::uint32_t line = 1;
  int dots = 0;
  char quote = '\0';
  bool in_comment = false;
  for (const char c : text) {
    if (c == '\n') {
      ++line;
      dots = 0;
      quote = '\0';
      in_comment = false;
    } else if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '#') {
      in_comment = true;
    } else if (!in_comment && (c == '"' || c == '\'')) {
      quote = c;
    } else if (!in_comment && c == '.' && ++dots > max_dots) {
      return line;
    }
  }
  return 0;
}

}  // namespace

std::string place_of(std::string_view file, std::uint32_t line, std::uint32_t column) {
  return fmt::format("{}:{}:{}", file, line, column);
}

Result<std::vector<ConfiguredKey>> parse_configuration(std::string_view text, std::string_view file,
                                                       std::span<const KnownKey> known,
                                                       std::string_view repeated) {
  if (const std::uint32_t line = line_of_deep_key(text); line != 0)
    return fail(ErrorCode::usage, fmt::format("{}:{}: a key has too many parts", file, line),
                "the file must be TOML: key = \"value\" below [table]");
  const toml::parse_result parsed = toml::parse(text, file);
  if (!parsed) {
    const auto at = parsed.error().source().begin;
    return fail(
        ErrorCode::usage,
        fmt::format("{}: {}", place_of(file, at.line, at.column), parsed.error().description()),
        "the file must be TOML: key = \"value\" below [table]");
  }
  Walk walk(file, known, repeated);
  TRY(walk.walk(parsed.table(), {}));
  return walk.take();
}

Result<std::vector<ConfiguredKey>> read_configuration(const std::string& path,
                                                      std::span<const KnownKey> known,
                                                      std::string_view repeated) {
  // What is at the other end of a pipe may come never, and not again for a reload.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) return sandbox::file_error(path, "read", errno);
  if (S_ISFIFO(status.st_mode))
    return fail(ErrorCode::unsupported, path + " is a pipe", "a regular file is required");
  const auto text = read_all(file.get(), limits::configuration_bytes + 1);
  if (!text) return sandbox::file_error(path, "read", text.error());
  if (text->size() > limits::configuration_bytes)
    return fail(ErrorCode::limit,
                fmt::format("{} has more than {} bytes", path, limits::configuration_bytes));
  return parse_configuration(*text, path, known, repeated);
}

std::string toml_value(ValueKind kind, std::span<const std::string> values) {
  const auto quoted = [](std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\')
        out += std::string("\\") + c;
      else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
        out += fmt::format("\\u{:04X}", static_cast<unsigned char>(c));
      else
        out += c;
    }
    return out + '"';
  };
  if (kind == ValueKind::list) {
    std::string out = "[";
    for (const std::string& value : values) out += (out.size() > 1 ? ", " : "") + quoted(value);
    return out + ']';
  }
  const std::string value = values.empty() ? std::string() : values.front();
  const bool is_number = !value.empty() && std::ranges::all_of(value, is_digit);
  const bool is_plain = kind == ValueKind::flag || kind == ValueKind::number ||
                        (kind == ValueKind::size && is_number);
  return is_plain ? value : quoted(value);
}

}  // namespace vitrine::agent
