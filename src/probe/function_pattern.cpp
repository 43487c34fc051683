#include "probe/function_pattern.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace vitrine::probe {
namespace {

constexpr std::string_view function_prefix = "func:";
constexpr std::string_view return_suffix = ":return";

/// "libc" of libc.so.6, libc-2.31.so and libc.so.
bool is_library_name(std::string_view name, std::string_view file) {
  if (!file.starts_with(name)) return false;
  const std::string_view rest = file.substr(name.size());
  if (rest.starts_with(".so") && (rest.size() == 3 || rest[3] == '.')) return true;
  return rest.size() > 1 && rest[0] == '-' && is_digit(rest[1]) && rest.find(".so") != rest.npos;
}

}  // namespace

bool is_function_pattern(std::string_view text) {
  return text.starts_with(function_prefix) && text.find(':', function_prefix.size()) != text.npos;
}

Result<FunctionPattern> parse_function_pattern(std::string_view text) {
  FunctionPattern pattern;
  pattern.text = text;
  std::string_view rest = text.substr(function_prefix.size());
  const std::size_t colon = rest.find(':');
  pattern.module = rest.substr(0, colon);
  rest.remove_prefix(colon + 1);
  // No function is called `return`: "Order::return" is no function.
  if (rest.ends_with(return_suffix) && !rest.ends_with(":" + std::string(return_suffix))) {
    pattern.at_return = true;
    rest.remove_suffix(return_suffix.size());
  }
  pattern.function = rest;
  pattern.address = parse_address(rest);
  if (pattern.module.empty() || pattern.function.empty())
    return fail(
        ErrorCode::usage,
        fmt::format("{}: a {} is missing", text, pattern.module.empty() ? "module" : "function"),
        "write func:MODULE:FUNCTION, for example func:libc:malloc or "
        "func:./server:main:return");
  return pattern;
}

bool FunctionPattern::names_module(std::string_view path) const {
  const std::string_view name = file_name(path);
  return name == module || is_library_name(module, name) || glob_matches(module, name);
}

std::string return_of(std::string_view entry) {
  return std::string(entry).append(return_suffix);
}

std::string entry_of(std::string_view name) {
  if (is_function_pattern(name) && name.ends_with(return_suffix))
    name.remove_suffix(return_suffix.size());
  return std::string(name);
}

}  // namespace vitrine::probe
