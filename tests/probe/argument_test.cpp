// The grammar, operand by operand; and the corpora of what compilers printed.
#include "probe/argument.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "fixed_symbols.hpp"

namespace vitrine::probe {
namespace {

using ::testing::HasSubstr;

constexpr Address site = 0x1000;
constexpr int none = VITRINE_NO_REGISTER, place = VITRINE_PROBE_ADDRESS;

vitrine_operand constant(int size, std::uint64_t value, int flags = 0, int base = none) {
  vitrine_operand operand{};
  operand.kind = VITRINE_CONSTANT;
  operand.size = static_cast<std::uint8_t>(size);
  operand.flags = static_cast<std::uint8_t>(flags);
  operand.base = static_cast<std::uint8_t>(base);
  operand.index = none;
  operand.displacement = value;
  return operand;
}
vitrine_operand in_register(int size, int base, int flags = 0, int index = none, int shift = 0) {
  vitrine_operand operand = constant(size, 0, flags, base);
  operand.kind = VITRINE_REGISTER;
  operand.index = static_cast<std::uint8_t>(index);
  operand.shift = static_cast<std::uint8_t>(shift);
  return operand;
}
vitrine_operand in_memory(int size, int base, std::int64_t displacement, int flags = 0,
                          int index = none, int scale = 0, int extend = 0) {
  vitrine_operand operand = constant(size, static_cast<std::uint64_t>(displacement), flags, base);
  operand.kind = VITRINE_MEMORY;
  operand.index = static_cast<std::uint8_t>(index);
  operand.scale = static_cast<std::uint8_t>(scale);
  operand.extend = static_cast<std::uint8_t>(extend);
  return operand;
}

bool same(const vitrine_operand& a, const vitrine_operand& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

std::string shown(const vitrine_operand& one) {
  std::ostringstream out;
  out << "kind " << int{one.kind} << " flags " << int{one.flags} << " size " << int{one.size}
      << " shift " << int{one.shift} << " base " << int{one.base} << " index " << int{one.index}
      << " scale " << int{one.scale} << " extend " << int{one.extend} << " displacement "
      << static_cast<std::int64_t>(one.displacement);
  return out.str();
}

test::FixedSymbols symbols() {
  test::FixedSymbols symbols;
  symbols.addresses = {{"g", 0x4000},   {"arr", 0x4100},
                       {"f", 0x1200},   {"_GLOBAL_OFFSET_TABLE_", 0x3000},
                       {"a.b$1", 0x10}, {"nogot", 0x1300}};
  symbols.slots = {{"g", 0x3010}, {"f", 0x3018}};
  symbols.thread_offsets = {{"tl", -8}};
  return symbols;
}

void expect(Machine machine, const char* text, const vitrine_operand& expected) {
  auto known = symbols();
  const auto got = compile_argument(text, machine, site, &known);
  ASSERT_TRUE(got) << text << ": " << got.error().message;
  EXPECT_TRUE(same(*got, expected))
      << text << "\n     got " << shown(*got) << "\nexpected " << shown(expected);
}

void refuse(Machine machine, const std::string& text, ArgumentError::Kind kind,
            const char* message) {
  auto known = symbols();
  const auto got = compile_argument(text, machine, site, &known);
  ASSERT_FALSE(got) << text << ": " << shown(*got);
  EXPECT_EQ(got.error().kind, kind) << text << ": " << got.error().message;
  EXPECT_THAT(got.error().message, HasSubstr(message)) << text;
}

constexpr auto x64 = Machine::x86_64;
constexpr int rax = 10, rcx = 11, rdx = 12, rbx = 5, rsi = 13, rdi = 14, rbp = 4, rsp = 19, r8 = 9,
              r9 = 8, r12 = 3, r15 = 0;

TEST(Argument, CompilesAttImmediates) {
  expect(x64, "-4@$5", constant(4, 5, VITRINE_SIGNED));
  expect(x64, "8@$-1", constant(8, UINT64_MAX));
  expect(x64, "8@$18446744073709551614", constant(8, UINT64_MAX - 1));
  expect(x64, "8@$0x10", constant(8, 16));
  expect(x64, "8@$010", constant(8, 8));
  expect(x64, "8f@$0x3ff8000000000000", constant(8, 0x3ff8000000000000, VITRINE_FLOAT));
  expect(x64, "8f@$0x000000000", constant(8, 0, VITRINE_FLOAT));
  expect(x64, "$7", constant(8, 7));
  expect(x64, "16@$-1", constant(16, UINT64_MAX));
  expect(x64, "8@$8*(3+1)-(2<<2)|1", constant(8, 23));
  // The address of a symbol moves with the file.
  expect(x64, "8@$g", constant(8, 0x3000, 0, place));
  expect(x64, "8@$8+g", constant(8, 0x3008, 0, place));
  expect(x64, "8@$g-8", constant(8, 0x2ff8, 0, place));
  expect(x64, "8@$tl@tpoff", constant(8, static_cast<std::uint64_t>(-8)));
}

TEST(Argument, CompilesAttRegisters) {
  expect(x64, "8@%rax", in_register(8, rax));
  expect(x64, "-4@%edi", in_register(4, rdi, VITRINE_SIGNED));
  expect(x64, "-1@%dil", in_register(1, rdi, VITRINE_SIGNED));
  expect(x64, "1@%ah", in_register(1, rax, 0, none, 8));
  expect(x64, "2@%r8w", in_register(2, r8));
  expect(x64, "1@%r15b", in_register(1, r15));
  expect(x64, "4@%r12", in_register(4, r12));
  expect(x64, "8@%r12d", in_register(8, r12));
  expect(x64, "8f@%rax", in_register(8, rax, VITRINE_FLOAT));
  expect(x64, "%edi", in_register(4, rdi));
  expect(x64, "%rdi", in_register(8, rdi));
  expect(x64, "16@%rax", in_register(16, rax, 0, rdx));
  expect(x64, "-16@%rcx", in_register(16, rcx, VITRINE_SIGNED, rbx));
  expect(x64, "16@%rsi", in_register(16, rsi, 0, rdi));
  expect(x64, "16@%r8", in_register(16, r8, 0, r9));
  // A long double has 10 bytes of 16.
  expect(x64, "16f@%rax", in_register(10, rax, VITRINE_FLOAT, rdx));
}

TEST(Argument, CompilesAttMemory) {
  expect(x64, "-4@-24(%rbp)", in_memory(4, rbp, -24, VITRINE_SIGNED));
  expect(x64, "8@(%rsp)", in_memory(8, rsp, 0));
  expect(x64, "8@-0x8(%rbp)", in_memory(8, rbp, -8));
  expect(x64, "-4@8+4(%rsp)", in_memory(4, rsp, 12, VITRINE_SIGNED));
  expect(x64, "4@(8+4)(%rsp)", in_memory(4, rsp, 12));
  expect(x64, "8@(%rdi,%rsi,8)", in_memory(8, rdi, 0, 0, rsi, 3));
  expect(x64, "-2@10(%rdi,%rsi)", in_memory(2, rdi, 10, VITRINE_SIGNED, rsi));
  expect(x64, "8@(,%rsi,4)", in_memory(8, none, 0, 0, rsi, 2));
  expect(x64, "16f@8(%rsp)", in_memory(10, rsp, 8, VITRINE_FLOAT));
  expect(x64, "24@(%rax)", in_memory(24, rax, 0));
  expect(x64, "64@(%rax)", in_memory(64, rax, 0));
  expect(x64, "65@(%rax)", in_memory(64, rax, 0, VITRINE_CUT));
  expect(x64, "8@ -8( %rbp , %rax , 2 ) ", in_memory(8, rbp, -8, 0, rax, 1));
  expect(x64, "4@(%edi)", in_memory(4, rdi, 0, VITRINE_ADDRESS_32));
  expect(x64, "4@%ds:(%rdi)", in_memory(4, rdi, 0));
}

TEST(Argument, CompilesAttSymbols) {
  expect(x64, "-4@g(%rip)", in_memory(4, place, 0x3000, VITRINE_SIGNED));
  expect(x64, "8@24+arr(%rip)", in_memory(8, place, 0x3118));
  expect(x64, "-4@-4+arr(%rip)", in_memory(4, place, 0x30fc, VITRINE_SIGNED));
  expect(x64, "8@arr+4(%rip)", in_memory(8, place, 0x3104));
  expect(x64, "8@a.b$1(%rip)", in_memory(8, place, 0x10 - 0x1000));
  expect(x64, "-4@arr(,%rcx,4)", in_memory(4, place, 0x3100, VITRINE_SIGNED, rcx, 2));
  expect(x64, "-4@arr(%rcx)", in_memory(4, rcx, 0x3100, VITRINE_SIGNED, place));
  // No register is left for the place: as an instruction that has the address in it.
  expect(x64, "8@arr(%rax,%rcx,8)", in_memory(8, rax, 0x4100, 0, rcx, 3));
  expect(x64, "8@g", in_memory(8, place, 0x3000));
  expect(x64, "8@g+8", in_memory(8, place, 0x3008));
  expect(x64, "8@f@GOTPCREL(%rip)", in_memory(8, place, 0x2018));
  expect(x64, "8@nogot@GOTPCREL(%rip)", constant(8, 0x300, 0, place));
  expect(x64, "-4@%fs:tl@tpoff", in_memory(4, VITRINE_THREAD_POINTER, -8, VITRINE_SIGNED));
  expect(x64, "-4@%fs:tl@tpoff+4", in_memory(4, VITRINE_THREAD_POINTER, -4, VITRINE_SIGNED));
  expect(x64, "-4@%fs:(%rax)", in_memory(4, rax, 0, VITRINE_SIGNED, VITRINE_THREAD_POINTER));
  expect(x64, "8@%fs:40", in_memory(8, VITRINE_THREAD_POINTER, 40));
}

TEST(Argument, CompilesI386) {
  const auto i386 = Machine::i386;
  constexpr int narrow = VITRINE_ADDRESS_32;
  expect(i386, "-1@%eax", in_register(1, rax, VITRINE_SIGNED));
  expect(i386, "-8@%eax", in_register(8, rax, VITRINE_SIGNED | narrow, rdx));
  expect(i386, "8@%esi", in_register(8, rsi, narrow, rdi));
  expect(i386, "8f@%eax", in_register(8, rax, VITRINE_FLOAT | narrow, rdx));
  expect(i386, "12f@16(%esp)", in_memory(10, rsp, 16, VITRINE_FLOAT | narrow));
  expect(i386, "4@(%ebx,%eax,4)", in_memory(4, rbx, 0, narrow, rax, 2));
  expect(i386, "4@g@GOTOFF(%ebx,%eax,4)", in_memory(4, rbx, 0x1000, narrow, rax, 2));
  expect(i386, "4@f@GOT(%ebx)", in_memory(4, rbx, 0x18, narrow));
  expect(i386, "-1@arr+9", in_memory(1, place, 0x3109, VITRINE_SIGNED | narrow));
  expect(i386, "-4@%gs:tl@ntpoff",
         in_memory(4, VITRINE_THREAD_POINTER, -8, VITRINE_SIGNED | narrow));
  refuse(i386, "12f@%eax", ArgumentError::Kind::unsupported, "more than two registers");
  refuse(i386, "8@%rax", ArgumentError::Kind::syntax, "no register");
}

TEST(Argument, CompilesIntelSyntax) {
  expect(x64, "-4@DWORD PTR -28[rbp]", in_memory(4, rbp, -28, VITRINE_SIGNED));
  expect(x64, "1@BYTE PTR 3[rdx]", in_memory(1, rdx, 3));
  expect(x64, "8@QWORD PTR [rdx+rcx*8]", in_memory(8, rdx, 0, 0, rcx, 3));
  expect(x64, "8@QWORD PTR [8+rdx+rcx*2-16]", in_memory(8, rdx, -8, 0, rcx, 1));
  expect(x64, "8@[rbp - 72]", in_memory(8, rbp, -72));
  expect(x64, "8@qword ptr [rax + 8*rcx + 24]", in_memory(8, rax, 24, 0, rcx, 3));
  expect(x64, "-4@DWORD PTR g[rip]", in_memory(4, place, 0x3000, VITRINE_SIGNED));
  expect(x64, "-4@DWORD PTR arr[rip+4]", in_memory(4, place, 0x3104, VITRINE_SIGNED));
  expect(x64, "-4@dword ptr [rip + arr]", in_memory(4, place, 0x3100, VITRINE_SIGNED));
  expect(x64, "8@[rip + offset g]", in_memory(8, place, 0x3000));  // clang's
  expect(x64, "4@[rip + offset arr+4]", in_memory(4, place, 0x3104));
  expect(x64, "8@QWORD PTR f@GOTPCREL[rip]", in_memory(8, place, 0x2018));
  expect(x64, "-4@DWORD PTR arr[0+rcx*4]", in_memory(4, place, 0x3100, VITRINE_SIGNED, rcx, 2));
  expect(x64, "-4@DWORD PTR fs:tl@tpoff", in_memory(4, VITRINE_THREAD_POINTER, -8, VITRINE_SIGNED));
  expect(x64, "8@QWORD PTR fs:[rax]", in_memory(8, rax, 0, 0, VITRINE_THREAD_POINTER));
  expect(x64, "8@rax", in_register(8, rax));
  expect(x64, "-4@EDI", in_register(4, rdi, VITRINE_SIGNED));
  expect(x64, "-4@5", constant(4, 5, VITRINE_SIGNED));
  expect(x64, "-4@-7", constant(4, static_cast<std::uint64_t>(-7), VITRINE_SIGNED));
  expect(x64, "8@OFFSET FLAT:g+4", constant(8, 0x3004, 0, place));
  refuse(x64, "8@?", ArgumentError::Kind::syntax, "no operand");
  refuse(x64, "? it is passed by value", ArgumentError::Kind::unsupported, "by value");
  refuse(x64, "8@[rax+rcx+rdx]", ArgumentError::Kind::syntax, "more than two registers");
  refuse(x64, "8@[rax", ArgumentError::Kind::syntax, "missing closing");
  refuse(x64, "8@[rax-rcx]", ArgumentError::Kind::syntax, "negated");
  refuse(x64, "8@xmm0", ArgumentError::Kind::unsupported, "vector register");
}

TEST(Argument, CompilesAarch64) {
  const auto arm64 = Machine::aarch64;
  constexpr int sp = 31;
  expect(arm64, "-4@x0", in_register(4, 0, VITRINE_SIGNED));
  expect(arm64, "8@x30", in_register(8, 30));
  expect(arm64, "8@lr", in_register(8, 30));
  expect(arm64, "4@w3", in_register(4, 3));
  expect(arm64, "8@w3", in_register(8, 3));
  expect(arm64, "w3", in_register(4, 3));
  expect(arm64, "8@sp", in_register(8, sp));
  expect(arm64, "8@xzr", constant(8, 0));
  expect(arm64, "16@x0", in_register(16, 0, 0, 1));
  expect(arm64, "16f@x2", in_register(16, 2, VITRINE_FLOAT, 3));
  expect(arm64, "-4@-5", constant(4, static_cast<std::uint64_t>(-5), VITRINE_SIGNED));
  expect(arm64, "8@#5", constant(8, 5));
  expect(arm64, "8f@1.5e+0", constant(8, 0x3ff8000000000000, VITRINE_FLOAT));
  expect(arm64, "4f@1.5e+0", constant(4, 0x3fc00000, VITRINE_FLOAT));
  expect(arm64, "2f@-1.5", constant(2, 0xbe00, VITRINE_FLOAT));
  expect(arm64, "8f@0", constant(8, 0, VITRINE_FLOAT));
  expect(arm64, "8f@2", constant(8, 0x4000000000000000, VITRINE_FLOAT));
  expect(arm64, "8@g+8", constant(8, 0x3008, 0, place));
  expect(arm64, "8@[x0]", in_memory(8, 0, 0));
  expect(arm64, "-4@[sp, 32]", in_memory(4, sp, 32, VITRINE_SIGNED));
  expect(arm64, "1@[x19, -1]", in_memory(1, 19, -1));
  expect(arm64, "1@[x19, #-1]!", in_memory(1, 19, -1));
  expect(arm64, "1@[x19,x20]", in_memory(1, 19, 0, 0, 20));
  expect(arm64, "8@[x0, x1, lsl 3]", in_memory(8, 0, 0, 0, 1, 3));
  expect(arm64, "16@[x0, x1, lsl #4]", in_memory(16, 0, 0, 0, 1, 4));
  expect(arm64, "2@[x0, w1, uxtw 1]", in_memory(2, 0, 0, 0, 1, 1, VITRINE_EXTEND_U32));
  expect(arm64, "1@[x0, w1, uxtw]", in_memory(1, 0, 0, 0, 1, 0, VITRINE_EXTEND_U32));
  expect(arm64, "8@[x0, w1, sxtw 3]", in_memory(8, 0, 0, 0, 1, 3, VITRINE_EXTEND_S32));
  expect(arm64, "8@[x0, x1, sxtx 3]", in_memory(8, 0, 0, 0, 1, 3));
  expect(arm64, "-4@[x0, #:lo12:g]", in_memory(4, place, 0x3000, VITRINE_SIGNED));
  expect(arm64, "-4@[x0, #:lo12:g+4]", in_memory(4, place, 0x3004, VITRINE_SIGNED));
  expect(arm64, "8@[x0, #:got_lo12:g]", in_memory(8, place, 0x2010));
  expect(arm64, "8@[x0, #:tprel_lo12_nc:tl]", in_memory(8, VITRINE_THREAD_POINTER, -8));
  expect(arm64, "65@[x0]", in_memory(64, 0, 0, VITRINE_CUT));
  for (const char* vector : {"8f@v0", "4f@s1", "16@q31", "8f@d8", "2f@h0", "1@b3", "16@v0.4s"})
    refuse(arm64, vector, ArgumentError::Kind::unsupported, "vector register");
  refuse(arm64, "8@[w0]", ArgumentError::Kind::syntax, "not a 64-bit register");
  refuse(arm64, "8@[x0, w1]", ArgumentError::Kind::syntax, "extension");
  refuse(arm64, "8@[x0, x1, uxtw 3]", ArgumentError::Kind::syntax, "extension");
  refuse(arm64, "8@[x0, x1, lsl 5]", ArgumentError::Kind::syntax, "shifted");
  refuse(arm64, "8@[x0", ArgumentError::Kind::syntax, "missing closing");
  refuse(arm64, "16@x30", ArgumentError::Kind::unsupported, "no register follows");
}

TEST(Argument, CompilesOtherMachines) {
  const auto arm = Machine::arm, ppc = Machine::ppc64, s390 = Machine::s390x,
             riscv = Machine::riscv64, loong = Machine::loongarch64;
  constexpr int narrow = VITRINE_ADDRESS_32;
  expect(arm, "-4@#5", constant(4, 5, VITRINE_SIGNED));
  expect(arm, "8f@#1.5e+0", constant(8, 0x3ff8000000000000, VITRINE_FLOAT));
  expect(arm, "4@#g+8", constant(4, 0x3008, 0, place));
  expect(arm, "-4@fp", in_register(4, 11, VITRINE_SIGNED));
  expect(arm, "8@r0", in_register(8, 0, narrow, 1));
  expect(arm, "1@[r7, #7]", in_memory(1, 7, 7, narrow));
  expect(arm, "4@[sp]", in_memory(4, 13, 0, narrow));
  expect(arm, "4@[r0, r1, lsl #2]", in_memory(4, 0, 0, narrow, 1, 2));
  refuse(arm, "8f@d0", ArgumentError::Kind::unsupported, "vector register");

  expect(ppc, "-4@i-67", constant(4, static_cast<std::uint64_t>(-67), VITRINE_SIGNED));
  expect(ppc, "8@9", in_register(8, 9));
  expect(ppc, "8@%r9", in_register(8, 9));
  expect(ppc, "8@-16(9)", in_memory(8, 9, -16));
  expect(ppc, "8@9(9)", in_memory(8, 9, 9));
  expect(ppc, "-4@-16(%r17)", in_memory(4, 17, -16, VITRINE_SIGNED));
  expect(ppc, "8@3,4", in_memory(8, 3, 0, 0, 4));
  expect(ppc, "8@0,4", in_memory(8, none, 0, 0, 4));
  expect(ppc, "8@8(0)", in_memory(8, none, 8));
  refuse(ppc, "8f@%f1", ArgumentError::Kind::unsupported, "floating-point register");
  refuse(ppc, "16f@0(9)", ArgumentError::Kind::unsupported, "16 bytes");
  refuse(ppc, "8@%r0(%r3)", ArgumentError::Kind::syntax, "displacement");
  refuse(ppc, "8@77", ArgumentError::Kind::syntax, "register");

  expect(s390, "-4@5", constant(4, 5, VITRINE_SIGNED));
  expect(s390, "8@%r15", in_register(8, 15));
  expect(s390, "8@160(%r15)", in_memory(8, 15, 160));
  expect(s390, "8@0(%r2,%r3)", in_memory(8, 2, 0, 0, 3));
  expect(s390, "8@8(%r0)", in_memory(8, none, 8));
  refuse(s390, "8f@%f0", ArgumentError::Kind::unsupported, "floating-point register");

  expect(riscv, "-4@5", constant(4, 5, VITRINE_SIGNED));
  expect(riscv, "8@a5", in_register(8, 15));
  expect(riscv, "8@s0", in_register(8, 8));
  expect(riscv, "8@s11", in_register(8, 27));
  expect(riscv, "8@t6", in_register(8, 31));
  expect(riscv, "8@zero", constant(8, 0));
  expect(riscv, "1@-17(s0)", in_memory(1, 8, -17));
  expect(riscv, "4@%lo(g)(a5)", in_memory(4, place, 0x3000));
  refuse(riscv, "8f@fa0", ArgumentError::Kind::unsupported, "floating-point register");

  expect(loong, "-4@5", constant(4, 5, VITRINE_SIGNED));
  expect(loong, "8@$r4", in_register(8, 4));
  expect(loong, "8@$r3, 16", in_memory(8, 3, 16));
  expect(loong, "8@$r3, $r4", in_memory(8, 3, 0, 0, 4));
  refuse(Machine::other, "8@x", ArgumentError::Kind::unsupported, "not supported");
}

TEST(Argument, SaysWhatItCannotEvaluate) {
  constexpr auto unsupported = ArgumentError::Kind::unsupported;
  constexpr auto unresolved = ArgumentError::Kind::unresolved;
  refuse(x64, "8f@%xmm0", unsupported, "vector register");
  refuse(x64, "16@%xmm1", unsupported, "vector register");
  refuse(x64, "16f@%st", unsupported, "x87 register");
  refuse(x64, "16f@%st(1)", unsupported, "x87 register");
  refuse(x64, "4@%r16d", unsupported, "r16d");
  refuse(x64, "24@%rax", unsupported, "more than two registers");
  refuse(x64, "16@%r15", unsupported, "no register follows");
  refuse(x64, "8@%gs:0", unsupported, "segment");
  refuse(x64, "8@%fs:(%rax,%rbx)", unsupported, "two registers");
  refuse(x64, "8@8(%rip)", unsupported, "names no symbol");
  refuse(x64, "8@$g-arr", unsupported, "symbols");
  refuse(x64, "8@foo@@VER(%rip)", unsupported, "foo");
  refuse(x64, "8@x@gottpoff(%rip)", unsupported, "gottpoff");
  refuse(x64, "4@.LC0(%rip)", unresolved, ".LC0");
  refuse(x64, "8@none@GOTPCREL(%rip)", unresolved, "none");
  const auto got = compile_argument("4@g(%rip)", x64, site, nullptr);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, unresolved);
}

TEST(Argument, RefusesNonsense) {
  const std::string nested(100, '('), signs(100, '-');
  const std::string wrong[] = {"",
                               "8@",
                               "-",
                               "@",
                               "8@8@%rax",
                               "0@%rax",
                               "-0@$1",
                               "8f8@%rax",
                               "8@%",
                               "8@%rax,",
                               "8@%rax %rbx",
                               "8@%foo",
                               "8@$",
                               "8@$-",
                               "8@$5x",
                               "8@$0x",
                               "8@$0x1g",
                               "8@$08",
                               "8@()",
                               "8@(,)",
                               "8@(%rax",
                               "8@%rax)",
                               "8@(%rax,%rsp)",
                               "8@(%rbx,%rcx,3)",
                               "8@(%rax,%rcx,)",
                               "8@(%rip,%rax)",
                               "3f@(%rax)",
                               "32f@(%rax)",
                               "9999999999@%rax",
                               "8@$99999999999999999999",
                               "8@99999999999999999999(%rax)",
                               "8@$1/0",
                               "8@%xs:0",
                               "8@(%ax)",
                               "8@[",
                               "8@]",
                               "8@[]",
                               "8@PTR",
                               "8@DWORD PTR",
                               "8@\"g",
                               "8@$" + nested,
                               "8@$" + signs,
                               "8@" + nested,
                               "8@$" + std::string(70000, '1'),
                               std::string(70000, '8')};
  for (const std::string& text : wrong)
    for (const Machine machine : {x64, Machine::i386}) {
      auto known = symbols();
      const auto got = compile_argument(text, machine, site, &known);
      ASSERT_FALSE(got) << text.substr(0, 60) << ": " << shown(*got);
      EXPECT_NE(got.error().kind, ArgumentError::Kind::unsupported) << text << got.error().message;
      EXPECT_LT(got.error().message.size(), 200U);
      EXPECT_FALSE(got.error().message.empty());
    }
}

// Every distinct list that compilers printed: parsed, or refused for a reason that is known.
class Corpus : public ::testing::TestWithParam<std::pair<Machine, const char*>> {};

TEST_P(Corpus, ParsesAll) {
  const auto [machine, name] = GetParam();
  std::ifstream file(std::string(VITRINE_CORPORA "/") + name);
  ASSERT_TRUE(file) << name;
  struct Any final : OperandSymbols {  // knows all but what no symbol table has
    tl::expected<Address, ArgumentError> address(std::string_view symbol) override {
      if (symbol.starts_with(".L"))
        return tl::unexpected<ArgumentError>({ArgumentError::Kind::unresolved, "a local label"});
      return 0x4000;
    }
    tl::expected<Address, ArgumentError> got_slot(std::string_view) override { return 0x3000; }
    tl::expected<std::int64_t, ArgumentError> thread_offset(std::string_view) override {
      return -8;
    }
  } any;
  std::size_t lists = 0, arguments = 0;
  std::map<std::string, std::size_t> refused;
  for (std::string line; std::getline(file, line);) {
    ++lists;
    for (const std::string& argument : split_arguments(line)) {
      ++arguments;
      // No list has a blank that compilers put between two arguments and we did not.
      EXPECT_EQ(argument.find('@', argument.find('@') + 1) == argument.npos,
                argument.find("@GOT") == argument.npos && argument.find("tpoff") == argument.npos)
          << argument;
      const auto got = compile_argument(argument, machine, site, &any);
      if (got) continue;
      EXPECT_NE(got.error().kind, ArgumentError::Kind::syntax)
          << argument << ": " << got.error().message;
      ++refused[argument];
    }
  }
  EXPECT_GT(lists, 300U);
  EXPECT_GT(arguments, lists);
  for (const auto& [argument, count] : refused) {
    const bool vector =
        argument.find("%xmm") != argument.npos || argument.find("@v") != argument.npos;
    const bool label = argument.find(".L") != argument.npos;
    const bool too_wide = argument == "12f@%eax" || argument == "16@%eax" || argument == "12f@%ebx";
    EXPECT_TRUE(vector || label || too_wide) << argument;
  }
}

INSTANTIATE_TEST_SUITE_P(Compilers, Corpus,
                         ::testing::Values(std::pair(Machine::x86_64, "x86_64.txt"),
                                           std::pair(Machine::i386, "i386.txt"),
                                           std::pair(Machine::aarch64, "aarch64.txt")),
                         [](const auto& test) {
                           const std::string name = test.param.second;
                           return name.substr(0, name.find('.'));
                         });

}  // namespace
}  // namespace vitrine::probe
