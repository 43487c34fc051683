#include "unwind/known_code.hpp"

#include <dwarf.h>

#include <algorithm>
#include <array>

namespace vitrine::unwind {
namespace {

using Kind = RegisterRule::Kind;

Row offset_row(Machine machine, std::int64_t cfa_offset) {
  const Roles roles = roles_of(machine);
  Row row;
  row.cfa = {Kind::in_register, 0, roles.stack};
  row.cfa_offset = cfa_offset;
  if (machine == Machine::x86_64) row.registers[roles.result] = {Kind::at_cfa, 0, -8};
  return row;
}

/// The CFA is the stack pointer; the interrupted registers are in a structure there.
Row signal_frame(Machine machine) {
  Row row = offset_row(machine, 0);
  row.registers = {};
  row.is_signal = true;
  return row;
}

template <std::size_t Size>
bool starts_with(std::span<const std::byte> code, const std::array<std::uint8_t, Size>& wanted) {
  return code.size() >= Size &&
         std::equal(wanted.begin(), wanted.end(), code.begin(),
                    [](std::uint8_t a, std::byte b) { return std::byte{a} == b; });
}

// arch/x86/include/uapi/asm/sigcontext.h: struct sigcontext_64, 40 bytes into the ucontext that the
// stack pointer is at. Its order, in DWARF numbers: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx,
// rsp, rip.
Row x86_64_signal() {
  constexpr std::array<std::uint8_t, 17> order{8, 9, 10, 11, 12, 13, 14, 15, 5,
                                               4, 6, 3,  1,  0,  2,  7,  16};
  Row row = signal_frame(Machine::x86_64);
  std::int64_t offset = 40;
  for (const std::uint8_t number : order) {
    row.registers[number] = {Kind::at_cfa, 0, offset};
    offset += 8;
  }
  return row;
}

// arch/arm64/include/uapi/asm/{ucontext,sigcontext}.h: 128 bytes of siginfo, 176 of ucontext before
// its sigcontext, 8 of fault address; then x0 to x30, sp, pc.
Row aarch64_signal() {
  Row row = signal_frame(Machine::aarch64);
  for (std::size_t number = 0; number < register_count; ++number)
    row.registers[number] = {Kind::at_cfa, 0,
                             128 + 176 + 8 + 8 * static_cast<std::int64_t>(number)};
  return row;
}

}  // namespace

std::optional<Row> linkage_row(Machine machine, std::string_view section, std::uint64_t offset) {
  const bool is_lazy = section == ".plt";
  if (!is_lazy && section != ".plt.sec" && section != ".plt.got" && section != ".iplt")
    return std::nullopt;
  if (machine == Machine::aarch64) {
    // The first entry, of 32 bytes, begins with stp x16, x30, [sp, #-16]!
    Row row = offset_row(machine, is_lazy && offset >= 4 && offset < 32 ? 16 : 0);
    if (row.cfa_offset != 0) row.registers[30] = {Kind::at_cfa, 0, -8};
    return row;
  }
  if (!is_lazy) return offset_row(machine, 8);
  // The first entry pushes a word of its own, after 6 bytes, onto that of the entry it came from.
  if (offset < 16) return offset_row(machine, offset < 6 ? 16 : 24);
  // The others: jmp *slot (6 bytes), push index (5), jmp first.
  return offset_row(machine, offset % 16 >= 11 ? 16 : 8);
}

std::optional<Row> signal_row(Machine machine, std::span<const std::byte> code) {
  if (machine == Machine::aarch64) {
    // mov x8, #139; svc #0
    constexpr std::array<std::uint8_t, 8> call{0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4};
    if (starts_with(code, call)) return aarch64_signal();
    return std::nullopt;
  }
  // mov $15, %rax (or %eax); syscall
  constexpr std::array<std::uint8_t, 9> wide{0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
  constexpr std::array<std::uint8_t, 7> narrow{0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};
  if (starts_with(code, wide) || starts_with(code, narrow)) return x86_64_signal();
  return std::nullopt;
}

}  // namespace vitrine::unwind
