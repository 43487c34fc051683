// What the stabilities of a provider are called (docs/formats/dof.md, "Providers and probes").
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "dof/dof.hpp"

namespace vitrine::dof {

/// In the order of their numbers.
inline constexpr std::array<std::string_view, 8> stability_names = {
    "Internal", "Private", "Obsolete", "External", "Unstable", "Evolving", "Stable", "Standard"};
inline constexpr std::array<std::string_view, 6> dependency_class_names = {
    "Unknown", "CPU", "Platform", "Group", "ISA", "Common"};

/// "Evolving/Evolving/Common"; a number that has no name stands for itself.
std::string name(const Stability& stability);

}  // namespace vitrine::dof
