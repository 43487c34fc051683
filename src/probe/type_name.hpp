// What things are called that have no name of their own: types of arguments, uses of sites.
#pragma once

#include <string>
#include <string_view>

#include "probe/probe.hpp"

namespace vitrine::probe {

/// As its programmer wrote it, where the probe tells; else after what it is and how wide its operand
/// ("-4@%edi") is: "int32", "double", "string".
std::string type_name(const ArgumentType& type, std::string_view operand);

/// How an is-enabled site gets its answer: "operand", "register", "pointer"; of a fire: empty.
std::string_view protocol_name(SiteUse use);

}  // namespace vitrine::probe
