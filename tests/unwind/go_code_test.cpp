// How functions of Go are left by .gopclntab, against the call frame information that Go's linker writes
// beside it.
#include "unwind/go_code.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "elf/image.hpp"
#include "sandbox/files.hpp"
#include "unwind/cfi.hpp"
#include "unwind/frame_table.hpp"

namespace vitrine::unwind {
namespace {

using Kind = RegisterRule::Kind;

struct Program {
  explicit Program(const std::string& path)
      : file(
            *sandbox::FileMemory::from(FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)))),
        windows(*file, 8192),
        elf(*elf::read_file(*file)),
        loaded(windows, elf),
        code(GoCode::open(
            windows, elf,
            [this](Address at, std::span<std::byte> into) { return loaded.read_some(at, into); })),
        functions(elf::GoFunctions::open(windows, elf)) {}

  std::unique_ptr<sandbox::FileMemory> file;
  WindowMemory windows;
  elf::File elf;
  elf::LoadedFile loaded;
  std::optional<GoCode> code;
  std::optional<elf::GoFunctions> functions;
};

/// At each address of each function, the CFA is where the linker's own information has it, unless the stack
/// pointer may be on another stack.
TEST(GoCode, AgreesWithTheLinkersInformation) {
  Program program(GO_CLOCK);
  ASSERT_TRUE(program.code && program.functions);
  const elf::Section* section = program.elf.find(".debug_frame");
  ASSERT_NE(section, nullptr);
  auto bytes = elf::read_section(*program.file, program.elf, *section, 64U << 20);
  ASSERT_TRUE(bytes);
  const std::uint64_t size = bytes->bytes.size();
  ByteMemory unpacked(std::move(bytes->bytes));
  CfiSection cfi(unpacked, {0, size, 0, true});
  cfi.make_index();
  std::size_t compared = 0, different = 0, switched = 0, ended = 0, unknown = 0;
  for (std::uint64_t n = 0; n < program.functions->size(); ++n) {
    const auto function = program.functions->at(n);
    ASSERT_TRUE(function);
    const auto entry = cfi.find(function->start);
    if (!entry) continue;
    const RuleBlock block = program.code->rules_around(function->start);
    EXPECT_TRUE(block.is_sound());
    for (Address at = function->start; at < entry->start + entry->size; ++at) {
      const auto wanted = row_at(*entry, at, Machine::x86_64);
      const auto found = program.code->row(at);
      ASSERT_TRUE(wanted);
      const Rule* rule = block.find(at);
      ASSERT_NE(rule, nullptr) << hex(at);
      EXPECT_EQ(rule->form == Rule::Form::unknown, !found);
      if (found) {
        EXPECT_EQ(*rule, compact(*found, Machine::x86_64)) << hex(at);
      }
      unknown += !found;
      if (!found) continue;
      switched += found->changes_stack;
      const bool ends = found->registers[16].kind == Kind::undefined;
      ended += ends;
      if (found->changes_stack || ends) continue;
      ++compared;
      const bool agrees = found->cfa == wanted->cfa && found->cfa_offset == wanted->cfa_offset &&
                          found->registers[16] == wanted->registers[16];
      different += !agrees;
      if (!agrees && different < 5)
        ADD_FAILURE() << program.functions->name(*function) << " at " << hex(at);
    }
  }
  fmt::print("{} addresses compared, {} by the frame of another stack, {} ends, {} unknown\n",
             compared, switched, ended, unknown);
  EXPECT_EQ(different, 0U);
  EXPECT_GT(compared, 100'000U);
  EXPECT_LT(unknown, 1000U);
}

/// What the runtime has on the goroutine's stack while it runs on another one.
TEST(GoCode, KnowsWhatSwitchesStacks) {
  for (const char* suffix : {"", "-stripped", "-cgo"}) {
    Program program(std::string(GO_CLOCK) + suffix);
    ASSERT_TRUE(program.code && program.functions);
    std::size_t found = 0;
    for (std::uint64_t n = 0; n < program.functions->size(); ++n) {
      const auto function = program.functions->at(n);
      ASSERT_TRUE(function);
      const std::string name = program.functions->name(*function);
      if (name != "runtime.nanotime1" && name != "runtime.nanotime1.abi0") continue;
      const RuleBlock block = program.code->rules_around(function->start);
      for (const RuleSpan& span : block.spans) found += span.rule.form == Rule::Form::switched;
    }
    EXPECT_GE(found, 1U) << suffix;
    const auto thread = find_go_thread(*program.file, program.elf);
    ASSERT_TRUE(thread) << suffix;
    EXPECT_EQ(thread->g_of_thread, -8);
    EXPECT_TRUE(is_sound(*thread));
  }
}

}  // namespace
}  // namespace vitrine::unwind
