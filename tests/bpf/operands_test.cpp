// Arguments evaluated in the kernel: the vectors of the specification, and everything that compilers
// printed, as user space evaluates it on the same registers and the same memory.
#include <gtest/gtest.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <set>

#include "bpf/own_probe.hpp"
#include "probe/argument.hpp"
#include "probe/evaluate.hpp"

namespace vitrine::bpf {
namespace {

using namespace vitrine::test;
using probe::ArgumentError;

std::uint64_t as_word(const void* at) {
  return reinterpret_cast<std::uint64_t>(at);
}

/// This process, as another sees it: an address may be anything.
class OwnMemory final : public Memory {
 public:
  void read(std::span<ReadRequest> requests) override {
    for (ReadRequest& request : requests) {
      iovec into{request.into.data(), request.into.size()};
      iovec from{reinterpret_cast<void*>(request.address), request.into.size()};
      const ssize_t got = ::process_vm_readv(::getpid(), &into, 1, &from, 1, 0);
      request.got = got < 0 ? 0 : static_cast<std::size_t>(got);
    }
  }
};

// The variables of docs/formats/sdt.md, "Worked examples".
const std::int32_t garr[4] = {10, -20, 30, 40};
const std::int32_t gint = -99;
const double gd = 2.5;
const std::int32_t* const gint_slot = &gint;
thread_local std::int32_t tl = 55;

/// Every name has an address, those of the specification their own.
struct Symbols final : probe::OperandSymbols {
  tl::expected<Address, ArgumentError> address(std::string_view name) override {
    if (name == ".Lloc")
      return tl::unexpected<ArgumentError>({ArgumentError::Kind::unresolved, "a local label"});
    return as_word(name == "gint" ? static_cast<const void*>(&gint)
                   : name == "gd" ? static_cast<const void*>(&gd)
                                  : garr);
  }
  tl::expected<Address, ArgumentError> got_slot(std::string_view) override {
    return as_word(&gint_slot);
  }
  tl::expected<std::int64_t, ArgumentError> thread_offset(std::string_view) override {
    return static_cast<std::int64_t>(as_word(&tl) - as_word(__builtin_thread_pointer()));
  }
};

tl::expected<vitrine_operand, ArgumentError> compile(const std::string& text) {
  Symbols symbols;
  return probe::compile_argument(text, Machine::x86_64, as_word(vitrine_test_site_with), &symbols);
}

using Words = std::array<std::uint64_t, 21>;

/// Evaluates in the kernel, as many at a time as one fire captures.
class KernelEvaluator {
 public:
  KernelEvaluator() { own_.trace(vitrine_test_site_with, program(VITRINE_EMIT, {})); }

  std::vector<Captured> evaluate(const std::vector<vitrine_operand>& operands, const Words& words) {
    std::vector<Captured> out;
    for (std::size_t first = 0; first < operands.size(); first += VITRINE_CAPTURES) {
      auto what = program(VITRINE_EMIT, {});
      for (std::size_t i = first; i < operands.size() && what.captures < VITRINE_CAPTURES; ++i)
        what.capture[what.captures++] = value(operands[i]);
      EXPECT_TRUE(own_.tracer->set_program(0, what));
      vitrine_test_fire_with(words.data());
      const auto fires = own_.take(1);
      EXPECT_EQ(fires.size(), 1u);
      if (fires.size() != 1) break;
      out.insert(out.end(), fires[0].captures.begin(), fires[0].captures.end());
    }
    return out;
  }

 private:
  OwnTracer own_;
};

/// Memory around which registers point.
struct Stack {
  std::uint64_t words[512]{};
  [[nodiscard]] std::uint64_t middle() const { return as_word(&words[256]); }
};

TEST(Operands, GiveTheSpecificationsValues) {
  Stack stack;
  stack.words[256] = 0x1122334455667788;
  stack.words[257] = 77ULL << 32 | static_cast<std::uint32_t>(-42);
  const std::uint64_t frame[2] = {0x1122334455667788, 0};
  const std::int64_t table[5] = {1, 2, -3, 4, 5};
  tl = 55;
  Words words{};
  words[rax] = 0x400921fb54442d18;
  words[rbx] = as_word(table);
  words[rcx] = 2;
  words[rdi] = 0xffffffff80000001;
  words[r12] = 0xfedcba9876543210;
  words[r13] = static_cast<std::uint64_t>(-3);
  words[rbp] = as_word(&frame[1]);
  words[rsp] = stack.middle();
  std::int32_t behind_garr = 0;
  std::memcpy(&behind_garr, reinterpret_cast<const char*>(garr) + 2, sizeof behind_garr);

  const auto negative = [](std::int64_t number) { return static_cast<std::uint64_t>(number); };
  const std::pair<const char*, std::uint64_t> vectors[] = {
      {"-4@$5", 5},
      {"8@$-1", ~0ULL},
      {"8@$18446744073709551614", negative(-2)},
      {"8@$0x10", 16},
      {"-4@%edi", negative(-2147483647LL)},
      {"4@%edi", 2147483649},
      {"-1@%dil", 1},
      {"-1@%al", 24},
      {"1@%ah", 45},
      {"8@%r12", 0xfedcba9876543210},
      {"4@%r12", 0x76543210},
      {"-2@%r13w", negative(-3)},
      {"%rdi", 0xffffffff80000001},
      {"-4@8(%rsp)", negative(-42)},
      {"8@-8(%rbp)", 0x1122334455667788},
      {"8@(%rbx,%rcx,8)", negative(-3)},
      {"4@4(%rbx,%rcx,4)", 0},
      {"-4@garr(,%rcx,4)", 30},
      {"-4@gint(%rip)", negative(-99)},
      {"-4@garr+4(%rip)", negative(-20)},
      {"8@gint@GOTPCREL(%rip)", as_word(&gint)},
      {"-4@%fs:tl@tpoff", 55},
      {"8f@%rax", 0x400921fb54442d18},
      {"8f@gd(%rip)", 0x4004000000000000},
      {"-4@garr(%rcx)", negative(behind_garr)},
      {"8@$garr+4", as_word(garr) + 4},
      {"-4@8+4(%rsp)", 77},
  };
  std::vector<vitrine_operand> operands;
  for (const auto& [text, expected] : vectors) {
    const auto operand = compile(text);
    ASSERT_TRUE(operand) << text << ": " << operand.error().message;
    operands.push_back(*operand);
  }
  const auto captured = KernelEvaluator().evaluate(operands, words);
  ASSERT_EQ(captured.size(), std::size(vectors));
  for (std::size_t i = 0; i < captured.size(); ++i) {
    EXPECT_TRUE(captured[i].ok()) << vectors[i].first;
    EXPECT_EQ(captured[i].head.value, vectors[i].second) << vectors[i].first;
  }
}

/// The bytes that the kernel sent, in the target's order.
std::vector<std::byte> bytes_of(const Captured& captured, const vitrine_operand& operand) {
  if (operand.size > 8) return {captured.bytes.begin(), captured.bytes.end()};
  const auto raw = std::as_bytes(std::span(&captured.head.value, 1)).first(operand.size);
  return {raw.begin(), raw.end()};
}

TEST(Operands, OfEveryCompilerAreEvaluatedAsInUserSpace) {
  std::set<std::string> texts;
  std::ifstream file(VITRINE_CORPORA "/x86_64.txt");
  for (std::string line; std::getline(file, line);)
    for (std::string& text : probe::split_arguments(line)) texts.insert(std::move(text));
  std::vector<std::string> names;
  std::vector<vitrine_operand> operands;
  for (const std::string& text : texts) {
    const auto operand = compile(text);
    if (!operand) continue;
    names.push_back(text);
    operands.push_back(*operand);
  }
  ASSERT_GT(operands.size(), 300u);

  KernelEvaluator kernel;
  OwnMemory memory;
  Stack stack;
  for (std::size_t i = 0; i < std::size(stack.words); ++i)
    stack.words[i] = 0x9e3779b97f4a7c15 * (i + 1);
  // Registers that are addresses, and registers that are indexes: each may be either.
  for (int round = 0; round < 3; ++round) {
    Words words{};
    for (std::size_t i = 0; i < words.size(); ++i)
      words[i] =
          round != 0 && i % 2 == static_cast<std::size_t>(round - 1) ? i : stack.middle() + 8 * i;
    probe::Registers registers;
    std::copy(words.begin(), words.end(), registers.words.begin());
    registers.words[VITRINE_PROBE_ADDRESS] = as_word(vitrine_test_site_with);
    registers.words[VITRINE_THREAD_POINTER] = as_word(__builtin_thread_pointer());
    // The stack pointer must stay one; what the site itself has no way to set is not compared.
    words[rsp] = registers.words[rsp] = stack.middle();
    const auto captured = kernel.evaluate(operands, words);
    ASSERT_EQ(captured.size(), operands.size());
    std::size_t read = 0;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const auto expected = probe::evaluate(operands[i], registers, memory);
      if (captured[i].head.state == VITRINE_CAPTURE_UNAVAILABLE) {
        EXPECT_GE(operands[i].base, words.size()) << names[i] << ": only vector registers are";
        continue;
      }
      ASSERT_EQ(captured[i].ok(), expected.has_value()) << names[i] << " in round " << round;
      if (!expected) continue;
      EXPECT_EQ(bytes_of(captured[i], operands[i]), *expected) << names[i];
      ++read;
    }
    EXPECT_GT(read, operands.size() / 3);
  }
}

}  // namespace
}  // namespace vitrine::bpf
