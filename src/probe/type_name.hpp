// What an argument's type is called.
#pragma once

#include <string>
#include <string_view>

#include "probe/probe.hpp"

namespace vitrine::probe {

/// As its programmer wrote it, where the probe tells; else after what it is and how wide its operand
/// ("-4@%edi") is: "int32", "double", "string".
std::string type_name(const ArgumentType& type, std::string_view operand);

}  // namespace vitrine::probe
