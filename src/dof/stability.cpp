#include "dof/stability.hpp"

#include <fmt/format.h>

#include <span>

namespace vitrine::dof {
namespace {

std::string name_of(std::span<const std::string_view> names, std::uint8_t number) {
  return number < names.size() ? std::string(names[number]) : std::to_string(number);
}

}  // namespace

std::string name(const Stability& stability) {
  return fmt::format("{}/{}/{}", name_of(stability_names, stability.name),
                     name_of(stability_names, stability.data),
                     name_of(dependency_class_names, stability.dependency_class));
}

}  // namespace vitrine::dof
