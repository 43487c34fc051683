// Where functions are left, of instructions that are written here. Those of real programs:
// tests/cli/trace_functions.py.
#include "unwind/exits.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

namespace vitrine::unwind {
namespace {

constexpr Address start = 0x1000, elsewhere = 0x3000;

/// Code at `start`, and a part of it at `elsewhere`.
struct Program {
  std::vector<std::uint8_t> code, part;
  LeftAt left_at = {};

  Result<std::vector<Exit>> exits(bool has_part = false) const {
    const auto read = [this](Address address, std::span<std::byte> into) -> std::size_t {
      const bool is_part = address >= elsewhere;
      const auto& bytes = is_part ? part : code;
      const std::size_t from = address - (is_part ? elsewhere : start);
      if (from >= bytes.size()) return 0;
      const std::size_t count = std::min(into.size(), bytes.size() - from);
      std::transform(bytes.begin() + static_cast<std::ptrdiff_t>(from),
                     bytes.begin() + static_cast<std::ptrdiff_t>(from + count), into.begin(),
                     [](std::uint8_t byte) { return std::byte{byte}; });
      return count;
    };
    return find_exits(
        read, {start, start + code.size()},
        [&](Address address) -> std::optional<CodeRange> {
          if (!has_part || address < elsewhere) return std::nullopt;
          return CodeRange{elsewhere, elsewhere + part.size()};
        },
        left_at);
  }

  /// "+1 ret", "+3 jump", "+3 table", or the error.
  std::string text(bool has_part = false) const {
    const auto found = exits(has_part);
    if (!found) return found.error().message;
    std::string text;
    for (const Exit& exit : *found)
      text += '+' + std::to_string(exit.address - start) +
              (exit.is_return    ? " ret "
               : exit.is_unclear ? " table "
                                 : " jump ");
    return text;
  }
};

/// A jump of `opcode` (two bytes of a branch) from offset `at`, which ends with its distance.
std::vector<std::uint8_t> to(Address target, std::vector<std::uint8_t> opcode, std::size_t at) {
  const auto distance = static_cast<std::uint32_t>(target - (start + at + opcode.size() + 4));
  for (int i = 0; i < 4; ++i) opcode.push_back(static_cast<std::uint8_t>(distance >> 8 * i));
  return opcode;
}

TEST(Exits, AreReturns) {
  EXPECT_EQ((Program{{0x90, 0xc3}, {}}.text()), "+1 ret ");
  EXPECT_EQ((Program{{0xf3, 0xc3, 0xc2, 0x08, 0x00}, {}}.text()), "+0 ret +2 ret ");
  // je +1; ret; xor %eax,%eax; ret
  EXPECT_EQ((Program{{0x74, 0x01, 0xc3, 0x31, 0xc0, 0xc3}, {}}.text()), "+2 ret +5 ret ");
  EXPECT_EQ((Program{{0x0f, 0x0b}, {}}.text()), "");  // ud2: it does not return
}

TEST(Exits, AreJumpsToOtherFunctions) {
  EXPECT_EQ((Program{to(0x9000, {0xe9}, 0), {}}.text()), "+0 jump ");
  EXPECT_EQ((Program{{0xff, 0x25, 0x10, 0x00, 0x00, 0x00}, {}}.text()), "+0 jump ");  // by the GOT
  EXPECT_EQ((Program{{0xff, 0x60, 0x18}, {}}.text()), "+0 jump ");  // jmp *0x18(%rax): virtual
  // mov (%rdi),%rax; jmp *%rax
  EXPECT_EQ((Program{{0x48, 0x8b, 0x07, 0xff, 0xe0}, {}}.text()), "+3 jump ");
  // A loop is none: nop; jmp -3
  EXPECT_EQ((Program{{0x90, 0xeb, 0xfd}, {}}.text()), "");
}

TEST(Exits, AreNotTheJumpsOfTables) {
  // movslq (%rdx,%rax,4),%rax; add %rdx,%rax; jmp *%rax; ret
  EXPECT_EQ((Program{{0x48, 0x63, 0x04, 0x82, 0x48, 0x01, 0xd0, 0xff, 0xe0, 0xc3}, {}}.text()),
            "+9 ret ");
  EXPECT_EQ((Program{{0x3e, 0xff, 0xe0, 0xc3}, {}}.text()), "+3 ret ");  // notrack
  // jmp *0x400000(,%rax,8); and jmp *(%rdx,%rax,8)
  EXPECT_EQ((Program{{0xff, 0x24, 0xc5, 0, 0, 0x40, 0, 0xc3}, {}}.text()), "+7 ret ");
  EXPECT_EQ((Program{{0xff, 0x24, 0xc2, 0xc3}, {}}.text()), "+3 ret ");
  // mov (%rcx,%r8,8),%r9; jmp *%r9
  EXPECT_EQ((Program{{0x4e, 0x8b, 0x0c, 0xc1, 0x41, 0xff, 0xe1, 0xc3}, {}}.text()), "+7 ret ");
}

TEST(Exits, MayBeJumpsByTablesWhereNothingIsOnTheStack) {
  const LeftAt nothing = [](Address) { return std::optional(start); };
  const LeftAt frame = [](Address address) {
    return address == start + 7 || address == start + 9 ? std::optional(start) : std::nullopt;
  };
  // jmp *0x400000(,%rax,8): a table of functions, or a switch
  const std::vector<std::uint8_t> by_memory{0xff, 0x24, 0xc5, 0, 0, 0x40, 0, 0xc3};
  EXPECT_EQ((Program{by_memory, {}, nothing}.text()), "+0 table +7 ret ");
  EXPECT_EQ((Program{by_memory, {}, frame}.text()), "+7 ret ");
  // mov (%rcx,%r8,8),%r9; jmp *%r9
  const std::vector<std::uint8_t> by_register{0x4e, 0x8b, 0x0c, 0xc1, 0x41, 0xff, 0xe1, 0xc3};
  EXPECT_EQ((Program{by_register, {}, nothing}.text()), "+4 table +7 ret ");
  EXPECT_EQ((Program{by_register, {}, frame}.text()), "+7 ret ");
  // Distances are of a switch: movslq (%rdx,%rax,4),%rax; add %rdx,%rax; jmp *%rax
  EXPECT_EQ(
      (Program{{0x48, 0x63, 0x04, 0x82, 0x48, 0x01, 0xd0, 0xff, 0xe0, 0xc3}, {}, nothing}.text()),
      "+9 ret ");
}

TEST(Exits, AreAlsoInThePartElsewhere) {
  std::vector<std::uint8_t> code = to(elsewhere, {0x0f, 0x84}, 0);  // je elsewhere
  code.push_back(0xc3);
  const Program program{code, {0x90, 0xc3}};
  EXPECT_EQ(program.text(true), "+6 ret +8193 ret ");
  EXPECT_NE(program.text(false).find("may lead to another function"), std::string::npos);
}

TEST(Exits, AreUnknownWhereCodeIsNotCertain) {
  // A jump into the bytes of a constant.
  EXPECT_NE((Program{{0xeb, 0x01, 0xb8, 0, 0, 0, 0, 0xc3}, {}}.text()).find("into an instruction"),
            std::string::npos);
  EXPECT_NE((Program{{0xc3, 0xe8, 0}, {}}.text()).find("cannot be disassembled at 0x1001"),
            std::string::npos);  // its end cuts an instruction
  EXPECT_NE((Program{{0x06, 0xc3}, {}}.text()).find("cannot be disassembled"), std::string::npos);
  EXPECT_NE((Program{{}, {}}.text()).find("size is not known"), std::string::npos);
  // Immediates of which nothing is known: SSE4a, XOP, APX. The last byte may be one.
  for (const std::vector<std::uint8_t>& code :
       std::vector<std::vector<std::uint8_t>>{{0x66, 0x0f, 0x78, 0xc0, 0x01, 0xc3},
                                              {0x8f, 0xe8, 0x78, 0xc2, 0xc1, 0xc3},
                                              {0x62, 0xf4, 0x7c, 0x08, 0x83, 0xc0, 0xc3}})
    EXPECT_NE((Program{code, {}}.text()).find("cannot be disassembled"), std::string::npos);
}

TEST(Exits, AgreeWithCallFrameInformation) {
  // nop; jmp to a part that has no symbol; ret
  std::vector<std::uint8_t> code{0x90};
  const auto jump = to(0x9000, {0xe9}, 1);
  code.insert(code.end(), jump.begin(), jump.end());
  code.push_back(0xc3);
  const auto keeps_frame = [](Address address) -> std::optional<Address> {
    if (address == start + 1) return std::nullopt;
    return start;
  };
  EXPECT_NE((Program{code, {}, keeps_frame}.text()).find("may go on after 0x1001"),
            std::string::npos);
  EXPECT_EQ((Program{code, {}, [](Address) { return std::optional(start); }}.text()),
            "+1 jump +6 ret ");
  // A row begins within what was taken for an instruction.
  EXPECT_NE((Program{code, {}, [](Address) { return std::optional(start + 3); }}.text())
                .find("begins within an instruction, at 0x1003"),
            std::string::npos);
}

}  // namespace
}  // namespace vitrine::unwind
