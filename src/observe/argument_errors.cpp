#include "observe/argument_errors.hpp"

#include <algorithm>

namespace vitrine::observe {

std::vector<std::optional<probe::ArgumentError>> ArgumentErrors::of(const probe::Site& site) {
  std::vector<std::optional<probe::ArgumentError>> errors;
  for (const std::string& argument : site.arguments) {
    auto operand = symbols_.compile(argument, site);
    errors.push_back(operand ? std::nullopt : std::optional(std::move(operand.error())));
  }
  const bool any = std::any_of(errors.begin(), errors.end(),
                               [](const auto& error) { return error.has_value(); });
  return any ? std::move(errors) : decltype(errors)();
}

}  // namespace vitrine::observe
