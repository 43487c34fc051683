// Instructions of x86-64, as far as they change the stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace vitrine::unwind {

/// An instruction, as far as stacks need it.
struct Instruction {
  enum class Kind : std::uint8_t {
    other,
    push,     ///< `reg`, or no_register
    pop,      ///< `reg`, or no_register
    add,      ///< `value` to `reg`
    move,     ///< `reg` = `base` + `value`
    load,     ///< `reg` = word at `base` + `value`
    store,    ///< word at `base` + `value` = `reg`
    clobber,  ///< `reg` gets a value that is not followed
    leave,
    ret,
    call,      ///< `value`: from the end; `base` no_register: to the value of a register or memory
    jump,      ///< the same; of a register: `reg`
    branch,    ///< a jump that may not be taken
    constant,  ///< eax = `value`
    syscall,
    stop,  ///< hlt, ud2, int3
    nop,
    address,  ///< `reg` = the instruction's end + `value`
    tail,  ///< a jump to the value of a word of the file's: by it functions of other files are left
    table,  ///< a jump to an entry of a table at `value`
  };
  static constexpr std::uint8_t no_register = 0xff;
  static constexpr std::uint8_t rax = 0, rsp = 4, rbp = 5;  ///< as instructions number them
  Kind kind = Kind::other;
  std::uint8_t length = 0;  ///< 0: no instruction that is known
  std::uint8_t reg = no_register;
  std::uint8_t base = no_register;  ///< DWARF has other numbers: see dwarf_number
  std::int32_t value = 0;
};

inline constexpr std::size_t instruction_bytes = 15;  ///< most of one

/// The one that `code` begins with. Without a length where it is no instruction, or `code` ends within it.
Instruction decode(std::span<const std::byte> code);

}  // namespace vitrine::unwind
