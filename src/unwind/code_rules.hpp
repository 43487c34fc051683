// How code without CFI is left, found by its instructions.
//
// musl's libc has no CFI and keeps no frame pointers. Its frames are found by going on from the pc
// along every path to a return instruction, with what each instruction adds to the stack pointer:
// where the stack pointer is at the return, the return address is. That needs no start of the
// function, which a stripped file does not give; a jump to another function is followed, as that
// one returns for this one. Where paths disagree, or none returns, there is no rule.
//
// x86-64 only.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/memory.hpp"
#include "unwind/instruction.hpp"
#include "unwind/rule.hpp"

namespace vitrine::unwind {

/// Reads code of a file at its own addresses; fewer bytes where it has no more.
using ReadCode = std::function<std::size_t(Address, std::span<std::byte>)>;

class CodeRules {
 public:
  explicit CodeRules(ReadCode read) : read_(std::move(read)) {}

  /// Of the pc: `offsets`, `outermost`, or `none`. `is_return`: a call ends there; a function whose
  /// result goes from there to what ends the thread or the process has no caller above.
  Rule rule(Address pc, bool is_return);

  /// Where the code ends that the kernel begins a program with, if it is that which begins at
  /// `entry`; else `entry`. Nothing has called it.
  Address end_of_start(Address entry);

  /// Whether the instruction before an address is a call: it can be returned to.
  bool follows_call(Address address);

 private:
  struct Path;
  struct Agreed;
  void follow(Path path, std::size_t doubt, std::span<std::vector<Path>> open,
              std::unordered_set<Address>& seen, Agreed& agreed);
  static Rule rule_at_return(const Path& path);
  bool returns(Address function, int depth);
  bool follows_sum(Address address);
  bool calls_for_good(Address pc);
  bool ends_in_padding(Address address);
  std::vector<Address> targets(Address table, std::size_t entry_bytes);
  bool ends_thread(Address pc);
  Instruction at(Address address);

  ReadCode read_;
  std::unordered_map<Address, bool> returns_;
};

}  // namespace vitrine::unwind
