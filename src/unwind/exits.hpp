// Where a function is left: its return instructions, and the jumps by which it ends in another one.
//
// A return probe of the kernel replaces the return address, which exceptions, panics and stacks that
// move do not survive. A breakpoint at each of these instructions changes nothing that the program
// can see. It must be at the start of an instruction: a function is disassembled from its first byte
// to its last, and where its end or one of its jumps is not at the start of an instruction, or
// anything is unknown, nothing of it is used.
//
// x86-64 only.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "unwind/code_rules.hpp"

namespace vitrine::unwind {

struct CodeRange {
  Address start = 0, end = 0;
};

struct Exit {
  Address address = 0;
  bool is_return = true;  ///< else a jump to another function, whose result it is
  /// A jump by a table of addresses, with nothing of the function on the stack: to another function, or
  /// to a place in this one.
  bool is_unclear = false;
};

/// The part of a function that compilers have put elsewhere and that is around an address; nullopt:
/// none, so that another function is there.
using PartAt = std::function<std::optional<CodeRange>(Address)>;

/// By call frame information: the start of the row that an address is in, if nothing of the function
/// is on the stack there but the address to return to; nullopt: something is, or it is not known.
using LeftAt = std::function<std::optional<Address>(Address)>;

/// In the order of addresses; none: the function does not return. Where `left_at` is not empty, each
/// exit must agree with it. Errors: unsupported, with the reason; limit.
Result<std::vector<Exit>> find_exits(const ReadCode& read, CodeRange function,
                                     const PartAt& part_at, const LeftAt& left_at = {});

/// A jump of a function to its own first instruction, which then is that of a loop: no register shows whether the
/// function was called or goes round. Calls are none of these. Nothing: there is no such jump before an
/// instruction that is not known.
std::optional<Address> find_jump_to_start(const ReadCode& read, CodeRange function);

}  // namespace vitrine::unwind
