#include "probe/evaluate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "fixed_symbols.hpp"
#include "probe/argument.hpp"
#include "support/buffer_memory.hpp"

namespace vitrine::probe {
namespace {

// The state of docs/formats/sdt.md, "Worked examples". The file is loaded away from its own
// addresses.
constexpr Address evaluated_site = 0x1200, bias = 0x555555554000;
constexpr Address table = 0x7ffff0000000, stack = 0x7ffff0001000, frame = 0x7ffff0001100;
constexpr Address thread = 0x7ffff0002000;
constexpr Address garr = 0x4010, gint = 0x4020, gd = 0x4028, gint_slot = 0x3ff0;

struct State {
  Registers registers;
  test::BufferMemory memory;
  test::FixedSymbols symbols;

  State() {
    auto& words = registers.words;
    words[10] = 0x400921fb54442d18;             // rax
    words[5] = table;                           // rbx
    words[11] = 2;                              // rcx
    words[14] = 0xffffffff80000001;             // rdi
    words[3] = 0xfedcba9876543210;              // r12
    words[2] = static_cast<std::uint64_t>(-3);  // r13
    words[19] = stack;                          // rsp
    words[4] = frame;                           // rbp
    words[12] = 0xaabb;                         // rdx
    words[VITRINE_THREAD_POINTER] = thread;
    words[VITRINE_PROBE_ADDRESS] = evaluated_site + bias;
    memory.place_value(table, std::array<std::int64_t, 5>{1, 2, -3, 4, 5});
    memory.place_value(stack, std::uint64_t{0x1122334455667788});
    memory.place_value(stack + 8, std::int32_t{-42});
    memory.place_value(stack + 12, std::int32_t{77});
    memory.place_value(frame - 8, std::uint64_t{0x1122334455667788});
    memory.place_value(bias + garr, std::array<std::int32_t, 4>{10, -20, 30, 40});
    memory.place_value(bias + gint, std::int32_t{-99});
    memory.place_value(bias + gd, 2.5);
    memory.place_value(bias + gint_slot, bias + gint);
    memory.place_value(thread - 4, std::int32_t{55});
    symbols.addresses = {{"garr", garr}, {"gint", gint}, {"gd", gd}};
    symbols.slots = {{"gint", gint_slot}};
    symbols.thread_offsets = {{"tl", -4}};
  }

  Value value(const std::string& text, const ArgumentType* type = nullptr) {
    const auto operand = compile_argument(text, Machine::x86_64, evaluated_site, &symbols);
    if (!operand) return ValueError{operand.error().message};
    const auto bytes = evaluate(*operand, registers, memory);
    if (!bytes) return ValueError{bytes.error().message};
    EXPECT_EQ(bytes->size(), operand->size) << text;
    return make_value(*operand, *bytes, type);
  }
};

constexpr std::uint64_t u64(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}

TEST(Evaluate, GivesTheSpecificationsValues) {
  const std::pair<const char*, Value> vectors[] = {
      {"-4@$5", std::int64_t{5}},
      {"8@$-1", UINT64_MAX},
      {"8@$18446744073709551614", UINT64_MAX - 1},
      {"8@$0x10", std::uint64_t{16}},
      {"-4@%edi", std::int64_t{-2147483647}},
      {"4@%edi", std::uint64_t{2147483649}},
      {"-1@%dil", std::int64_t{1}},
      {"-1@%al", std::int64_t{24}},
      {"1@%ah", std::uint64_t{45}},
      {"8@%r12", std::uint64_t{0xfedcba9876543210}},
      {"4@%r12", std::uint64_t{0x76543210}},
      {"-2@%r13w", std::int64_t{-3}},
      {"%rdi", std::uint64_t{0xffffffff80000001}},
      {"-4@8(%rsp)", std::int64_t{-42}},
      {"8@-8(%rbp)", std::uint64_t{0x1122334455667788}},
      {"8@(%rbx,%rcx,8)", u64(-3)},
      {"4@4(%rbx,%rcx,4)", std::uint64_t{0}},
      {"-4@garr(,%rcx,4)", std::int64_t{30}},
      {"-4@gint(%rip)", std::int64_t{-99}},
      {"-4@garr+4(%rip)", std::int64_t{-20}},
      {"8@gint@GOTPCREL(%rip)", bias + gint},
      {"-4@%fs:tl@tpoff", std::int64_t{55}},
      {"8f@%rax", 3.141592653589793},
      {"8f@gd(%rip)", 2.5},
      {"-4@garr(%rcx)", std::int64_t{-1310720}},
      {"8@$garr+4", bias + garr + 4},
      {"-4@8+4(%rsp)", std::int64_t{77}},
  };
  State state;
  for (const auto& [text, expected] : vectors) EXPECT_EQ(state.value(text), expected) << text;
  for (const char* refused : {"8f@%xmm0", "4f@%xmm1", "-4@.Lloc(%rip)", "8@(%rbx,%rcx,3)"})
    EXPECT_TRUE(std::holds_alternative<ValueError>(state.value(refused))) << refused;
}

TEST(Evaluate, JoinsPairsAndStructures) {
  State state;
  auto bytes = [&](const char* text) { return std::get<BytesValue>(state.value(text)); };
  const auto pair = bytes("16@%rax");
  std::uint64_t halves[2];
  ASSERT_EQ(pair.bytes.size(), sizeof halves);
  std::memcpy(halves, pair.bytes.data(), sizeof halves);
  EXPECT_EQ(halves[0], 0x400921fb54442d18);
  EXPECT_EQ(halves[1], 0xaabb);
  EXPECT_EQ(bytes("24@(%rbx)").bytes.size(), 24);
  EXPECT_FALSE(bytes("24@(%rbx)").truncated);
  state.memory.place(0x10000, std::vector<std::byte>(200));
  state.registers.words[10] = 0x10000;
  EXPECT_EQ(bytes("200@(%rax)").bytes.size(), VITRINE_OPERAND_BYTES);
  EXPECT_TRUE(bytes("200@(%rax)").truncated);
  const auto minus_one = bytes("-16@$-1");
  EXPECT_THAT(minus_one.bytes, ::testing::Each(std::byte{0xff}));
}

TEST(Evaluate, CutsAddressesOf32Bits) {
  State state;
  state.registers.words[10] = 0xffffffff00010004;
  state.memory.place_value(0x10000, std::int32_t{9});
  EXPECT_EQ(state.value("-4@-4(%eax)"), Value(std::int64_t{9}));
  auto i386 = compile_argument("-8@%eax", Machine::i386, evaluated_site, nullptr);
  ASSERT_TRUE(i386);
  state.registers.words[10] = 0xdddddddd00000001;
  state.registers.words[12] = 0xeeeeeeee00000002;
  const auto bytes = evaluate(*i386, state.registers, state.memory);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(make_value(*i386, *bytes, nullptr), Value(std::int64_t{0x200000001}));
}

TEST(Evaluate, ExtendsIndexesOfAarch64) {
  State state;
  state.registers.words[0] = 0x20000;
  state.registers.words[1] = 0xdeadbeeffffffffe;  // -2, with what is above w1
  state.memory.place_value(0x20000 - 16, std::uint64_t{7});
  state.memory.place_value(0x20000 + 0xfffffffeULL * 8, std::uint64_t{8});
  for (const auto& [text, expected] :
       {std::pair{"8@[x0, w1, sxtw 3]", 7U}, {"8@[x0, w1, uxtw 3]", 8U}}) {
    const auto operand = compile_argument(text, Machine::aarch64, evaluated_site, nullptr);
    ASSERT_TRUE(operand);
    const auto bytes = evaluate(*operand, state.registers, state.memory);
    ASSERT_TRUE(bytes) << text;
    EXPECT_EQ(make_value(*operand, *bytes, nullptr), Value(std::uint64_t{expected})) << text;
  }
}

TEST(Evaluate, SaysWhereNothingCanBeRead) {
  State state;
  state.registers.words[10] = 0x123456;
  const auto value = state.value("8@8(%rax)");
  ASSERT_TRUE(std::holds_alternative<ValueError>(value));
  EXPECT_THAT(std::get<ValueError>(value).message, ::testing::HasSubstr("0x12345e"));
  vitrine_operand none{};
  EXPECT_FALSE(evaluate(none, state.registers, state.memory));
}

TEST(Evaluate, TypesDecideWhatNumbersMean) {
  State state;
  ArgumentType type;
  type.kind = ValueKind::boolean;
  EXPECT_EQ(state.value("1@$1", &type), Value(true));
  EXPECT_EQ(state.value("1@$0", &type), Value(false));
  type.kind = ValueKind::c_string;
  EXPECT_EQ(state.value("8@%rbx", &type), Value(PointerValue{table}));
  type.kind = ValueKind::floating;
  EXPECT_EQ(state.value("8@%rax", &type), Value(3.141592653589793));
  type.kind = ValueKind::enumeration;
  type.enumerators = {{-3, "minus"}, {5, "five"}};
  EXPECT_EQ(state.value("-4@%r13d", &type), Value(EnumeratorValue{-3, "minus"}));
  EXPECT_EQ(state.value("-4@$5", &type), Value(EnumeratorValue{5, "five"}));
  EXPECT_EQ(state.value("-4@$6", &type), Value(EnumeratorValue{6, ""}));
  type.enumerators = {{-1, "most"}};  // as the 64 bits of its note
  EXPECT_EQ(state.value("8@$-1", &type), Value(EnumeratorValue{-1, "most", true}));
  EXPECT_EQ(state.value("8@$-2", &type), Value(EnumeratorValue{-2, "", true}));
  EXPECT_EQ(state.value("-8@$-1", &type), Value(EnumeratorValue{-1, "most"}));
}

TEST(Evaluate, ConvertsEveryFloatingPointFormat) {
  const auto bytes = [](const auto& value, std::size_t size) {
    const auto all = std::as_bytes(std::span(&value, 1));
    return std::vector<std::byte>(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(size));
  };
  EXPECT_EQ(double_of_bytes(bytes(1.25F, 4)), 1.25);
  EXPECT_EQ(double_of_bytes(bytes(-2.5, 8)), -2.5);
  const std::pair<std::uint16_t, double> halves[] = {{0x3c00, 1},        {0xc000, -2},
                                                     {0x7bff, 65504},    {0x0001, 0x1p-24},
                                                     {0x0400, 0x1p-14},  {0x03ff, 1023 * 0x1p-24},
                                                     {0x7c00, INFINITY}, {0xfc00, -INFINITY}};
  for (const auto& [bits, value] : halves) {
    EXPECT_EQ(double_of_bytes(bytes(bits, 2)), value);
    EXPECT_EQ(half_of_double(value), bits);
  }
  EXPECT_TRUE(std::isnan(double_of_bytes(bytes(std::uint16_t{0x7e00}, 2))));
  EXPECT_EQ(half_of_double(65519), 0x7bff);
  EXPECT_EQ(half_of_double(65520), 0x7c00);
  EXPECT_EQ(half_of_double(1 + 0x1p-11), 0x3c00) << "ties go to even";

#if defined(__x86_64__)
  for (const long double value : {0.0L, -0.0L, 1.0L, -3.25L, 0.1L, 1e300L, 1e-300L, 5e-324L})
    EXPECT_EQ(double_of_bytes(bytes(value, 10)), static_cast<double>(value));
  EXPECT_EQ(double_of_bytes(bytes(1e400L, 10)), INFINITY);
  __extension__ using Quad = __float128;
  for (const double value : {0.0, 1.0, -3.25, 0.1, 1e300, 1e-300, 5e-324, -1.0 / 3}) {
    EXPECT_EQ(double_of_bytes(bytes(static_cast<Quad>(value), 16)), value);
    const auto more = static_cast<Quad>(value) * (1 + 0x1p-60);
    EXPECT_EQ(double_of_bytes(bytes(more, 16)), static_cast<double>(more));
  }
#endif
  std::array<std::byte, 10> infinity{};
  infinity[7] = std::byte{0x80};
  infinity[8] = std::byte{0xff};
  infinity[9] = std::byte{0xff};
  EXPECT_EQ(double_of_bytes(infinity), -INFINITY);
}

}  // namespace
}  // namespace vitrine::probe
