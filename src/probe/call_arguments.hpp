// Where the arguments of a C function are when it is called: what the ABI of a machine says, as
// operands of the grammar that arguments of all probes are written in.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "probe/probe.hpp"

namespace vitrine::probe {

/// What an observer is to be shown of a call.
struct ShownCall {
  std::span<const std::string> passed;    ///< types of what the caller passes, in order
  std::span<const std::string> shown;     ///< types of what the observer sees
  std::span<const std::uint8_t> sources;  ///< one a shown argument: which of the passed feeds it
  /// A return address is on the stack (x86): the place is in a function that was called, or at a
  /// jump in its place.
  bool return_address = false;
};

struct CallArguments {
  std::vector<std::string> operands;  ///< one a shown argument, for compile_argument()
  std::vector<ArgumentType> types;    ///< of those whose type says something
};

/// Of System V x86-64, i386 and AAPCS64. An argument that cannot be told where it is, or what it
/// is, has an operand that compile_argument() refuses, with the reason.
CallArguments call_arguments(const ShownCall& call, Machine machine);

}  // namespace vitrine::probe
