// The unwinder on stacks and CFI that are written here: every way to go on and to end, on both
// machines.
#include "unwind/unwinder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.hpp"
#include "base/memory.hpp"
#include "support/cfi_image.hpp"
#include "unwind/frame.hpp"
#include "unwind/frame_table.hpp"

namespace vitrine::unwind {
namespace {

using testing::ElementsAre;
using Bytes = std::vector<std::uint8_t>;

constexpr Address code = 0x5500'0000'0000;
constexpr Address jit = 0x5600'0000'0000;
constexpr Address stack_start = 0x7ff0'0000'0000;
constexpr Address left_start = 0xc000'0000'0000;

void put(Bytes& bytes, std::uint64_t value, std::size_t size) {
  for (std::size_t n = 0; n < size; ++n) bytes.push_back(static_cast<std::uint8_t>(value >> 8 * n));
}

Bytes entry(Bytes body) {
  while (body.size() % 8 != 4) body.push_back(0);  // DW_CFA_nop
  Bytes whole;
  put(whole, body.size(), 4);
  whole.insert(whole.end(), body.begin(), body.end());
  return whole;
}

struct Function {
  Address start;
  std::uint64_t size;
  Bytes program;
};

/// .eh_frame: a CIE with absolute addresses, then its FDEs.
Bytes make_cfi(Machine machine, const Bytes& common, const std::vector<Function>& functions,
               bool is_signal = false) {
  const bool is_arm = machine == Machine::aarch64;
  Bytes body{0, 0, 0, 0, 1, 'z', 'R'};
  if (is_signal) body.push_back('S');
  const Bytes rest{0,    static_cast<std::uint8_t>(is_arm ? 4 : 1),
                   0x78, static_cast<std::uint8_t>(is_arm ? 30 : 16),
                   1,    0};
  body.insert(body.end(), rest.begin(), rest.end());
  body.insert(body.end(), common.begin(), common.end());
  Bytes section = entry(body);
  for (const Function& function : functions) {
    Bytes words;
    put(words, section.size() + 4, 4);
    put(words, function.start, 8);
    put(words, function.size, 8);
    words.push_back(0);
    words.insert(words.end(), function.program.begin(), function.program.end());
    const Bytes whole = entry(words);
    section.insert(section.end(), whole.begin(), whole.end());
  }
  return section;
}

/// What is told of whole blocks is what is told of each address; and it comes back as it was.
void expect_blocks_of(FrameTable& table) {
  for (Address address = 0; address < test::code_bytes; ++address) {
    const RuleBlock block = table.rules_around(address);
    EXPECT_TRUE(block.is_sound());
    if (const Rule* rule = block.find(address)) {
      EXPECT_EQ(*rule, table.rule(address)) << address;
    }
    if (address % 64 != 0) continue;
    EXPECT_EQ(pack::unpack<RuleBlock>(pack::pack(block)).value(), block);
    const Row* row = table.row(address);
    if (row == nullptr) continue;
    EXPECT_TRUE(is_sound(*row));
    EXPECT_EQ(pack::unpack<Row>(pack::pack(*row)).value(), *row);
  }
}

/// A process of one file at `code` and JIT code at `jit`.
class Process {
 public:
  Process(Machine machine, const Bytes& cfi, Bytes instructions = {}, std::size_t at = 0x800)
      : machine_(machine) {
    auto image = test::cfi_image(machine == Machine::aarch64 ? EM_AARCH64 : EM_X86_64, ".eh_frame",
                                 std::as_bytes(std::span(cfi)), {});
    if (!instructions.empty())
      std::memcpy(image.data() + at, instructions.data(), instructions.size());
    auto table = FrameTable::open(std::make_unique<ByteMemory>(std::move(image)));
    EXPECT_TRUE(table);
    if (table) expect_blocks_of(**table);
    add({code, code + test::code_bytes, code, table ? *table : nullptr});
    registers_.machine = machine;
    set(roles_of(machine).stack, stack_start);
  }
  Process& set(std::size_t number, std::uint64_t value) {
    registers_.words[number] = value;
    return *this;
  }
  /// Instead of the code without a file.
  void add(Region region) {
    std::vector<Region> regions{{jit, jit + 0x1000, 0, nullptr}};
    for (const Region& known : unwinder_.code().regions())
      if (known.rules != nullptr) regions.push_back(known);
    if (region.start == jit) regions.erase(regions.begin());
    regions.push_back(std::move(region));
    unwinder_.replace(CodeMap(std::move(regions)));
  }
  Process& at(Address pc) { return set(roles_of(machine_).pc, pc); }

  /// The pcs; those of calls' ends are told as calls: one less.
  std::vector<Address> unwind(std::vector<std::uint64_t> words,
                              std::vector<std::uint64_t> left = {}) {
    const Stack stack{stack_start, std::as_bytes(std::span(words)), left_start,
                      std::as_bytes(std::span(left))};
    std::vector<Frame> frames;
    end = unwinder_.unwind(registers_, stack, frames);
    std::vector<Address> found;
    for (const Frame& frame : frames) found.push_back(frame.lookup());
    const End cold = end;
    end = unwinder_.unwind(registers_, stack, frames);
    EXPECT_EQ(end, cold);
    return found;
  }

  End end = End::bad;

 private:
  Machine machine_;
  Registers registers_;
  Unwinder unwinder_{CodeMap{}};
};

const Bytes x86_common{0x0c, 7, 8, 0x90, 1};  // CFA: rsp + 8; rip: at CFA - 8

/// Of a leaf, of a caller with 24 bytes of its own, of the outermost function.
std::vector<Function> x86_functions(Bytes leaf = {}) {
  return {{0x100, 0x100, std::move(leaf)}, {0x200, 0x80, {0x0e, 32}}, {0x280, 0x80, {7, 16}}};
}

Process x86(Bytes leaf = {}) {
  return {Machine::x86_64, make_cfi(Machine::x86_64, x86_common, x86_functions(std::move(leaf)))};
}

TEST(Unwinder, GoesToTheOutermostFunction) {
  auto process = x86();
  process.at(code + 0x110);
  EXPECT_THAT(process.unwind({code + 0x210, 0, 0, 0, code + 0x220, 0, 0, 0, code + 0x290}),
              ElementsAre(code + 0x110, code + 0x20f, code + 0x21f, code + 0x28f));
  EXPECT_EQ(process.end, End::outermost);
}

/// Code that calls with the stack pointer on another stack than its frame is on.
class Switching final : public RuleSource {
 public:
  Switching() {
    row_.cfa = {RegisterRule::Kind::in_register, 0, 6};
    row_.cfa_offset = 16;
    row_.registers[6] = {RegisterRule::Kind::at_cfa, 0, -16};
    row_.registers[16] = {RegisterRule::Kind::at_cfa, 0, -8};
    row_.changes_stack = true;
  }
  [[nodiscard]] Machine machine() const override { return Machine::x86_64; }
  Rule rule(Address) override { return compact(row_, Machine::x86_64); }
  const Row* row(Address) override { return &row_; }

 private:
  Row row_;
};

class SwitchedStacks : public testing::TestWithParam<bool> {
 protected:
  /// The caller of the outermost of these has the rule that is asked for.
  Process process() const {
    // Only with all registers: the last function but one goes by rbx.
    const Bytes by_rbx{0x0c, 3, 32};
    auto functions = x86_functions();
    if (GetParam()) functions[1].program = by_rbx;
    Process its(Machine::x86_64, make_cfi(Machine::x86_64, x86_common, functions));
    its.add({jit, jit + 0x1000, 0, std::make_shared<Switching>()});
    return its;
  }
};

TEST_P(SwitchedStacks, AreGoneThrough) {
  auto its = process();
  // The leaf is called by code whose frame is on the other stack, and that by a function there.
  its.at(code + 0x110).set(6, left_start).set(3, left_start + 16);
  const std::vector<std::uint64_t> words{jit + 8, 1, 2};
  EXPECT_THAT(its.unwind(words, {7, code + 0x210, 0, 0, 0, code + 0x290}),
              ElementsAre(code + 0x110, jit + 7, code + 0x20f, code + 0x28f));
  EXPECT_EQ(its.end, End::outermost);
  its.unwind(words, {7, code + 0x210, 0});
  EXPECT_EQ(its.end, End::truncated);
  EXPECT_THAT(its.unwind(words), ElementsAre(code + 0x110, jit + 7));
  EXPECT_EQ(its.end, End::other_stack);
}

TEST_P(SwitchedStacks, AreGoneBackTo) {
  auto its = process();
  its.at(code + 0x110).set(6, left_start).set(3, stack_start + 40);
  // From the first to the other stack, and behind what is there to the first again, further up.
  const std::vector<std::uint64_t> words{jit + 8, 0, 0, 9, code + 0x210, 0, 0, 0, code + 0x290};
  EXPECT_THAT(its.unwind(words, {stack_start + 24, jit + 0x18}),
              ElementsAre(code + 0x110, jit + 7, jit + 0x17, code + 0x20f, code + 0x28f));
  EXPECT_EQ(its.end, End::outermost);
}

TEST_P(SwitchedStacks, InCirclesEnd) {
  auto its = process();
  its.at(code + 0x110).set(6, left_start);
  EXPECT_EQ(its.unwind({jit + 8}, {left_start, jit + 8}).size(), limits::frames);
  EXPECT_EQ(its.end, End::limit);
}

INSTANTIATE_TEST_SUITE_P(With, SwitchedStacks, testing::Bool(), [](const auto& all) {
  return all.param ? "AllRegisters" : "ThreeRegisters";
});

TEST(Unwinder, TakesTheRowOfThePc) {
  // push rbp (at + 4), mov rsp, rbp (at + 7).
  auto process = x86({0x44, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6});
  process.set(6, stack_start + 16);
  EXPECT_THAT(process.at(code + 0x103).unwind({code + 0x290}),
              ElementsAre(code + 0x103, code + 0x28f));
  EXPECT_THAT(process.at(code + 0x104).unwind({0, code + 0x290}),
              ElementsAre(code + 0x104, code + 0x28f));
  EXPECT_THAT(process.at(code + 0x107).unwind({0, 0, 0, code + 0x290}),
              ElementsAre(code + 0x107, code + 0x28f));
}

TEST(Unwinder, TellsWhereTheCopyOfTheStackEnds) {
  auto process = x86();
  process.at(code + 0x110);
  EXPECT_THAT(process.unwind({code + 0x210, 0, 0}), ElementsAre(code + 0x110, code + 0x20f));
  EXPECT_EQ(process.end, End::truncated);
  EXPECT_THAT(process.unwind({}), ElementsAre(code + 0x110));
  EXPECT_EQ(process.end, End::truncated);
}

TEST(Unwinder, RefusesAStackThatGoesInCircles) {
  // The CFA of the leaf is rbp, which its caller has restored to the same place.
  auto process = x86({0x0c, 6, 16, 0x86, 2});
  process.set(6, stack_start);
  EXPECT_THAT(process.at(code + 0x110).unwind({stack_start, code + 0x110, 0, 0}),
              ElementsAre(code + 0x110, code + 0x10f));
  EXPECT_EQ(process.end, End::bad);
}

TEST(Unwinder, RefusesAReturnToWhereNoCodeIs) {
  auto process = x86();
  EXPECT_THAT(process.at(code + 0x110).unwind({0x1234, 0, 0}), ElementsAre(code + 0x110));
  EXPECT_EQ(process.end, End::bad);
}

TEST(Unwinder, StopsAtTheLimit) {
  auto process = x86();
  const auto found = process.at(code + 0x110)
                         .unwind(std::vector<std::uint64_t>(limits::frames + 10, code + 0x110));
  EXPECT_EQ(found.size(), limits::frames);
  EXPECT_EQ(process.end, End::limit);
}

TEST(Unwinder, EvaluatesExpressions) {
  // CFA: *(rsp + 16) + 8, as in functions that align their stack.
  auto process = x86({0x0f, 5, 0x77, 16, 0x06, 0x23, 8});
  EXPECT_THAT(process.at(code + 0x110).unwind({0, 0, stack_start + 32, 0, code + 0x290}),
              ElementsAre(code + 0x110, code + 0x28f));
  // The one that ld writes for a procedure linkage table: 8 more once the index is pushed.
  const Bytes plt{0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22};
  EXPECT_THAT(x86(plt).at(code + 0x116).unwind({code + 0x290}),
              ElementsAre(code + 0x116, code + 0x28f));
  EXPECT_THAT(x86(plt).at(code + 0x11b).unwind({3, code + 0x290}),
              ElementsAre(code + 0x11b, code + 0x28f));
}

TEST(Unwinder, RestoresAllRegistersForARuleThatNeedsAnother) {
  // The middle function's CFA is rbx + 16; the leaf has pushed rbx.
  const std::vector<Function> functions{
      {0x100, 0x100, {0x0e, 16, 0x83, 2}}, {0x200, 0x80, {0x0c, 3, 16}}, {0x280, 0x80, {7, 16}}};
  Process process(Machine::x86_64, make_cfi(Machine::x86_64, x86_common, functions));
  EXPECT_THAT(
      process.at(code + 0x110).unwind({stack_start + 32, code + 0x210, 0, 0, 0, code + 0x290}),
      ElementsAre(code + 0x110, code + 0x20f, code + 0x28f));
  EXPECT_EQ(process.end, End::outermost);
}

TEST(Unwinder, KeepsARegisterThatHasBeenPopped) {
  // rbp is at CFA - 16 by the rules to the function's end, though it is popped before the return.
  const Bytes popped{0x86, 2}, by_rbp{0x0c, 6, 16}, outermost{7, 16};
  const std::vector<Function> functions{
      {0x100, 0x100, popped}, {0x200, 0x80, by_rbp}, {0x280, 0x80, outermost}, {0x300, 0x80, {}}};
  Process process(Machine::x86_64, make_cfi(Machine::x86_64, x86_common, functions));
  process.set(6, stack_start + 32);
  EXPECT_THAT(process.at(code + 0x110).unwind({code + 0x210, 0, 0, 0, 0, code + 0x290}),
              ElementsAre(code + 0x110, code + 0x20f, code + 0x28f));
  EXPECT_EQ(process.end, End::outermost);
  // The same after a call: the place is the callee's by then, here of its return address.
  EXPECT_THAT(process.at(code + 0x310).unwind({code + 0x110, code + 0x210, 0, 0, 0, code + 0x290}),
              ElementsAre(code + 0x310, code + 0x10f, code + 0x20f, code + 0x28f));
  EXPECT_EQ(process.end, End::outermost);
}

TEST(Unwinder, KeepsAPoppedRegisterThatARowNeeds) {
  // The caller's CFA is rbx + 16, so all registers are restored; rbx has been popped.
  const std::vector<Function> functions{
      {0x100, 0x100, {0x83, 2}}, {0x200, 0x80, {0x0c, 3, 16}}, {0x280, 0x80, {7, 16}}};
  Process process(Machine::x86_64, make_cfi(Machine::x86_64, x86_common, functions));
  process.set(3, stack_start + 32);
  EXPECT_THAT(process.at(code + 0x110).unwind({code + 0x210, 0, 0, 0, 0, code + 0x290}),
              ElementsAre(code + 0x110, code + 0x20f, code + 0x28f));
  EXPECT_EQ(process.end, End::outermost);
}

TEST(Unwinder, KnowsLinkageTablesWithoutCfi) {
  auto process = x86();
  EXPECT_THAT(process.at(code + 0xc26).unwind({code + 0x290}),
              ElementsAre(code + 0xc26, code + 0x28f));
  EXPECT_THAT(process.at(code + 0xc2b).unwind({1, code + 0x290}),
              ElementsAre(code + 0xc2b, code + 0x28f));
  EXPECT_THAT(process.at(code + 0xc06).unwind({2, 1, code + 0x290}),
              ElementsAre(code + 0xc06, code + 0x28f));
}

TEST(Unwinder, GoesByFramePointersInJitCode) {
  auto process = x86();
  process.set(6, stack_start + 16);
  EXPECT_THAT(process.at(jit + 8).unwind(
                  {7, 7, stack_start + 32, jit + 80, 0, code + 0x210, 0, 0, 0, code + 0x290}),
              ElementsAre(jit + 8, jit + 79, code + 0x20f, code + 0x28f));
  EXPECT_EQ(process.end, End::outermost);
}

TEST(Unwinder, ReturnsFromACallToNowhere) {
  auto process = x86();
  EXPECT_THAT(process.at(0).unwind({code + 0x290}), ElementsAre(0, code + 0x28f));
  EXPECT_EQ(process.end, End::outermost);
}

TEST(Unwinder, FindsTheInterruptedFunctionWithoutCfiOfTheTrampoline) {
  // musl's: mov $15, %rax; syscall. The word after the handler's return address is the ucontext.
  Process process(Machine::x86_64, make_cfi(Machine::x86_64, x86_common, x86_functions()),
                  {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05});
  std::vector<std::uint64_t> words(40);
  words[0] = code + 0x800;
  words[1 + 20] = stack_start + 8 * 30;  // rsp: 160 bytes into it
  words[1 + 21] = code + 0x200;          // rip: the function's first instruction
  words[30 + 3] = code + 0x290;
  EXPECT_THAT(process.at(code + 0x110).unwind(words),
              ElementsAre(code + 0x110, code + 0x800, code + 0x200, code + 0x28f));
  EXPECT_EQ(process.end, End::outermost);
}

TEST(Unwinder, TakesASignalFrameByItsCfi) {
  // As glibc has it: rip and rsp where expressions say, CFA by one, too.
  Process process(Machine::x86_64,
                  make_cfi(Machine::x86_64, {},
                           {{0x100, 0x100, {0x0f, 3, 0x77, 16, 6, 0x10, 16, 2, 0x77, 24}},
                            {0x200, 0x80, {0x0c, 7, 8, 0x90, 1}}},
                           true));
  EXPECT_THAT(process.at(code + 0x110).unwind({0, 0, stack_start + 32, code + 0x200, 0}),
              ElementsAre(code + 0x110, code + 0x200));
}

const Bytes arm_common{0x0c, 31, 0};  // CFA: sp
/// stp x29, x30, [sp, #-32]!, after paciasp.
const std::vector<Function> arm_functions{{0x100, 0x100, {0x2d, 0x42, 0x0e, 32, 0x9d, 4, 0x9e, 3}},
                                          {0x280, 0x80, {7, 30}}};

Process arm(Bytes instructions = {}) {
  return {Machine::aarch64, make_cfi(Machine::aarch64, arm_common, arm_functions),
          std::move(instructions)};
}

TEST(UnwinderAarch64, TakesTheLinkRegisterOfALeafAndSignedAddressesFromTheStack) {
  auto process = arm();
  constexpr std::uint64_t signature = 0x2a5f'0000'0000'0000;
  // Before it has stored anything, the return address is in x30.
  process.at(code + 0x104).set(30, signature | (code + 0x180)).set(29, stack_start);
  EXPECT_THAT(process.unwind({0, signature | (code + 0x290), 0, 0}),
              ElementsAre(code + 0x104, code + 0x17f, code + 0x28f));
  EXPECT_EQ(process.end, End::outermost);
}

TEST(UnwinderAarch64, DoesNotTakeTheLinkRegisterTwice) {
  const std::vector<Function> leaves{{0x100, 0x100, {}}};
  Process process(Machine::aarch64, make_cfi(Machine::aarch64, arm_common, leaves));
  process.at(code + 0x104).set(30, code + 0x108);
  EXPECT_THAT(process.unwind({0, 0}), ElementsAre(code + 0x104, code + 0x107));
  EXPECT_NE(process.end, End::outermost);
}

TEST(UnwinderAarch64, FindsTheInterruptedFunctionByTheTrampoline) {
  auto process = arm({0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4});  // mov x8, #139; svc #0
  std::vector<std::uint64_t> words(100);
  words[1] = code + 0x800;                   // of the handler: x30
  const std::size_t saved = 4 + 312 / 8;     // of the signal frame: x0
  words[saved + 30] = code + 0x290;          // x30
  words[saved + 31] = stack_start + 8 * 90;  // sp
  words[saved + 32] = code + 0x100;          // pc
  process.at(code + 0x110);
  EXPECT_THAT(process.unwind(words),
              ElementsAre(code + 0x110, code + 0x800, code + 0x100, code + 0x28f));
  EXPECT_EQ(process.end, End::outermost);
}

TEST(UnwinderAarch64, GoesByFramePointersInJitCode) {
  auto process = arm();
  process.at(jit + 8).set(29, stack_start + 16);
  EXPECT_THAT(process.unwind({7, 7, stack_start + 48, jit + 80, 0, 0, 0, code + 0x290}),
              ElementsAre(jit + 8, jit + 79, code + 0x28f));
  EXPECT_EQ(process.end, End::outermost);
}

TEST(UnwinderAarch64, ReturnsFromACallToNowhere) {
  auto process = arm();
  EXPECT_THAT(process.at(16).set(30, code + 0x290).unwind({}), ElementsAre(16, code + 0x28f));
}

TEST(FrameTable, FindsTheBiasOfAMapping) {
  auto image = test::cfi_image(EM_X86_64, ".eh_frame", {}, {});
  const auto table = FrameTable::open(std::make_unique<ByteMemory>(std::move(image)));
  ASSERT_TRUE(table);
  EXPECT_EQ(bias_of((*table)->segments(), 0x7000'0000, 0), 0x7000'0000);
  EXPECT_EQ(bias_of((*table)->segments(), 0x7000'0000, 0x10'0000), std::nullopt);
  EXPECT_EQ((*table)->row(0x100), nullptr);
}

TEST(FrameTable, TellsTheRulesOfNeighboursAtOnce) {
  std::vector<Function> functions;
  for (Address start = 0x100; start < 0x900; start += 0x10)
    functions.push_back({start, 0x10, {0x44, 0x0e, 16}});  // two rules each
  const auto cfi = make_cfi(Machine::x86_64, x86_common, functions);
  const auto table = FrameTable::open(std::make_unique<ByteMemory>(
      test::cfi_image(EM_X86_64, ".eh_frame", std::as_bytes(std::span(cfi)), {})));
  ASSERT_TRUE(table);
  const RuleBlock block = (*table)->rules_around(0x405);
  EXPECT_GE(block.spans.size(), 4U);
  EXPECT_LE(block.spans.size(), 64U);
  EXPECT_EQ((*table)->rules_around(block.start), block);
  EXPECT_EQ((*table)->rules_around(block.end - 1), block);
  // Code that no CFI is about, between functions and .plt; and .plt itself, whose rules are known.
  const RuleBlock without{0x900, 0xc00, {{0, 0x300, Rule{}}}};
  EXPECT_EQ((*table)->rules_around(0xa00), without);
  EXPECT_EQ((*table)->rules_around(0xc00), RuleBlock{});
}

TEST(RuleBlock, IsSoundOrNot) {
  const RuleBlock good{0x100, 0x200, {{0, 0x80, {}}, {0x80, 0x80, {}}}};
  EXPECT_TRUE(good.is_sound());
  EXPECT_EQ(good.find(0xff), nullptr);
  EXPECT_EQ(good.find(0x180), &good.spans[1].rule);
  EXPECT_EQ(good.find(0x200), nullptr);
  const auto expect_unsound = [&](const auto& change) {
    RuleBlock block = good;
    change(block);
    EXPECT_FALSE(block.is_sound());
  };
  expect_unsound([](RuleBlock& block) { block.end = 0x80; });
  expect_unsound([](RuleBlock& block) { block.end = 0x1ff; });
  expect_unsound([](RuleBlock& block) { block.spans[1].start = 0x7f; });
  expect_unsound([](RuleBlock& block) { block.spans[1].size = 0; });
  expect_unsound([](RuleBlock& block) { block.spans[1].size = ~0U; });
  expect_unsound([](RuleBlock& block) { block.spans[0].rule.cfa_register = register_count; });
}

TEST(Row, IsSoundIfItsExpressionsAreThere) {
  Row row;
  row.expressions.resize(4);
  row.registers[3] = {RegisterRule::Kind::at_expression, 2, 2};
  EXPECT_TRUE(is_sound(row));
  row.registers[3].size = 3;
  EXPECT_FALSE(is_sound(row));
  row.registers[3] = {};
  row.cfa = {RegisterRule::Kind::expression, 0, -1};
  EXPECT_FALSE(is_sound(row));
}

TEST(FrameTable, TakesTenBytesForTenBytes) {
  // DW_CFA_offset_extended of register 67,108,863: libdw takes half a gigabyte for it.
  auto process = x86({0x05, 0xff, 0xff, 0xff, 0x1f, 1});
  EXPECT_THAT(process.at(code + 0x110).unwind({code + 0x290}),
              ElementsAre(code + 0x110, code + 0x28f));
}

}  // namespace
}  // namespace vitrine::unwind
