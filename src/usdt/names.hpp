// The names that tie a definition, its header and its objects together
// (docs/formats/object-step.md, "Names").
#pragma once

#include <string>
#include <string_view>

#include "usdt/definition.hpp"

namespace vitrine::usdt {

std::string probe_symbol(const Provider& provider, const Probe& probe);  ///< __dtrace_p___n
std::string enabled_symbol(const Provider& provider,
                           const Probe& probe);  ///< __dtraceenabled_p___n
std::string semaphore_symbol(const Provider& provider,
                             const Probe& probe);                      ///< __dtracesemaphore_p___n
std::string macro_name(const Provider& provider, const Probe& probe);  ///< P_N

/// What observers call a probe that the file spells `identifier`: each "__", from the left, is '-'.
std::string probe_name(std::string_view identifier);

}  // namespace vitrine::usdt
