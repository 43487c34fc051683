// The symboliser against llvm-symbolizer: on programs of every compiler, DWARF version and way of
// keeping debug information, and on 10,000 addresses of a large one.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>
#include <utility>

#include "elf/file.hpp"
#include "elf/symbols.hpp"
#include "sandbox/files.hpp"
#include "symbol/assembly_lines.hpp"
#include "symbol/llvm_symbolizer.hpp"
#include "symbol/symboliser.hpp"

namespace vitrine::symbol {
namespace {

struct Agreement {
  std::size_t same = 0, of = 0, inlined = 0;
  std::string first_difference;
};

/// Without a name of its own: the place in the file where it begins.
bool is_nameless(const Frames& frames) {
  return frames.size() == 1 && frames[0].name.starts_with("+0x");
}

/// `asked`: the file whose addresses they are; `peer`: the one that llvm-symbolizer is given.
Agreement compare(const std::string& asked, const std::string& peer, std::size_t count) {
  const auto addresses = test::drawn_addresses(asked, count);
  const auto file = sandbox::open_regular_at(AT_FDCWD, asked).value();
  Symboliser symboliser;
  const Resolved answer = symboliser.resolve({asked, file.get(), {}}, addresses);
  EXPECT_EQ(answer.problem, "");
  const auto theirs = test::llvm_frames(peer, addresses);
  Agreement agreement;
  agreement.of = addresses.size();
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (answer.frames[i].size() > 1) ++agreement.inlined;
    const Frames named = is_nameless(answer.frames[i]) ? Frames() : answer.frames[i];
    if (test::same(named, theirs[i]))
      ++agreement.same;
    else if (agreement.first_difference.empty())
      agreement.first_difference = hex(addresses[i]) + "\nours:\n" +
                                   test::described(answer.frames[i]) + "llvm-symbolizer:\n" +
                                   test::described(theirs[i]);
  }
  return agreement;
}

class Subjects : public testing::TestWithParam<const char*> {};

TEST_P(Subjects, EqualLlvmSymbolizer) {
  const std::string path = std::string(SUBJECT_DIR "/") + GetParam();
  // llvm-symbolizer 14 misses inlined functions in what gcc has split off; the code is the same as
  // without that.
  std::string peer = path;
  if (peer.ends_with("gcc-split5")) peer = SUBJECT_DIR "/gcc-dwarf5";
  if (peer.ends_with("gcc-split4")) peer = SUBJECT_DIR "/gcc-dwarf4";
  const Agreement agreement = compare(path, peer, 2000);
  EXPECT_GE(static_cast<double>(agreement.same), 0.995 * static_cast<double>(agreement.of))
      << agreement.first_difference;
  EXPECT_GT(agreement.inlined, agreement.of / 50) << "nothing inlined was asked for";
}

INSTANTIATE_TEST_SUITE_P(Debug, Subjects,
                         testing::Values("gcc-dwarf5", "gcc-dwarf4", "gcc-dwarf2", "gcc-no-pie",
                                         "gcc-lld", "gcc-types", "clang-dwarf5", "clang-dwarf4",
                                         "gcc-gz", "gcc-split5", "gcc-split4", "clang-split5",
                                         "clang-split4"),
                         [](const auto& subject) {
                           std::string name = subject.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(Agreement, DebugFileByLink) {
  const Agreement agreement = compare(SUBJECT_DIR "/linked", SUBJECT_DIR "/gcc-dwarf5", 2000);
  EXPECT_GE(static_cast<double>(agreement.same), 0.995 * static_cast<double>(agreement.of))
      << agreement.first_difference;
}

// llvm-symbolizer 14 cannot read what dwz made; it is asked about the same program before that.
TEST(Agreement, DebugInformationSharedByDwz) {
  const Agreement agreement = compare(SUBJECT_DIR "/shared", SUBJECT_DIR "/gcc-dwarf4", 2000);
  EXPECT_GE(static_cast<double>(agreement.same), 0.995 * static_cast<double>(agreement.of))
      << agreement.first_difference;
}

TEST(Agreement, LargeProgram) {
  const Agreement agreement = compare(LARGE_PROGRAM, LARGE_PROGRAM, 10'000);
  EXPECT_GE(static_cast<double>(agreement.same), 0.995 * static_cast<double>(agreement.of))
      << agreement.first_difference;
  EXPECT_GT(agreement.inlined, agreement.of / 20);
  RecordProperty("same", static_cast<int>(agreement.same));
}

// Of large sections no more is inflated than what is read: whatever comes first, the result is the same.
TEST(Agreement, LargeCompressedSections) {
  constexpr Address in_no_unit = 1;
  const auto addresses = test::drawn_addresses(LARGE_PROGRAM, 500);
  const std::string path = SUBJECT_DIR "/large-gz";
  const auto file = sandbox::open_regular_at(AT_FDCWD, path).value();
  const auto plain = sandbox::open_regular_at(AT_FDCWD, LARGE_PROGRAM).value();
  Symboliser of_plain;
  const Resolved whole = of_plain.resolve({LARGE_PROGRAM, plain.get(), {}}, addresses);
  const auto expect_same = [&](Symboliser& symboliser, std::size_t from, std::size_t count) {
    const auto some = std::span(addresses).subspan(from, count);
    const Resolved answer = symboliser.resolve({path, file.get(), {}}, some);
    EXPECT_EQ(answer.problem, "");
    for (std::size_t i = 0; i < count; ++i)
      EXPECT_EQ(answer.frames[i], whole.frames[from + i])
          << hex(some[i]) << '\n'
          << test::described(answer.frames[i]) << "not compressed:\n"
          << test::described(whole.frames[from + i]);
  };
  for (std::size_t first = 0; first < 20; ++first) {  // units at any place of the file
    Symboliser symboliser;
    expect_same(symboliser, first, 1);
    if (first % 2 == 0) {
      const Resolved nothing = symboliser.resolve({path, file.get(), {}}, std::vector{in_no_unit});
      EXPECT_TRUE(nothing.frames[0].empty());
    }
    expect_same(symboliser, first + 1, 3);
  }
  Symboliser symboliser;
  expect_same(symboliser, 0, addresses.size());
}

// What is not in DWARF comes from the symbol tables.
TEST(Agreement, SymbolTablesAlone) {
  for (const char* name : {"no-debug", "exports-only", "mini"}) {
    const std::string path = std::string(SUBJECT_DIR "/") + name;
    const auto addresses = test::drawn_addresses(path, 500);
    const auto file = sandbox::open_regular_at(AT_FDCWD, path).value();
    Symboliser symboliser;
    const Resolved answer = symboliser.resolve({path, file.get(), {}}, addresses);
    EXPECT_EQ(answer.problem, "") << name;
    bool has_main = false;
    for (const Frames& frames : answer.frames) {
      ASSERT_LE(frames.size(), 1U);
      if (frames.empty()) continue;
      EXPECT_EQ(frames[0].file, "");
      has_main = has_main || frames[0].name ==
                                 "subject::elsewhere(std::vector<int, "
                                 "std::allocator<int> > const&)";
    }
    EXPECT_TRUE(has_main) << name;
  }
}

// The name of every byte of code that assembly defines, whatever it says of types and sizes.
TEST(Agreement, AssemblyWithoutTypesAndSizes) {
  const std::string path = SUBJECT_DIR "/assembly";
  const auto file = sandbox::open_regular_at(AT_FDCWD, path).value();
  constexpr std::array<std::string_view, 7> names{
      "_start", "bare_label", "local_label", "zero_size", "sized", "behind_sized", "last_of_all"};
  const auto memory = sandbox::FileMemory::from(sandbox::open_regular_at(AT_FDCWD, path).value());
  const auto symbols = elf::find_file_symbols(**memory, names).value();
  std::vector<Address> addresses;
  for (const auto& symbol : symbols) {
    ASSERT_TRUE(symbol);
    addresses.push_back(symbol->value);
    addresses.push_back(symbol->value + 1);
  }
  const Address in_loop = symbols[4]->value + 2;  // llvm-symbolizer says loop_in_sized
  const auto theirs = test::llvm_frames(path, addresses);
  addresses.push_back(in_loop);
  Symboliser symboliser;
  const Resolved answer = symboliser.resolve({path, file.get(), {}}, addresses);
  EXPECT_EQ(answer.problem, "");
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    ASSERT_EQ(answer.frames[i].size(), 1U) << names[i / 2];
    EXPECT_EQ(answer.frames[i][0].name, names[i / 2]);
    EXPECT_EQ(answer.frames[i][0].offset, i % 2);
    EXPECT_TRUE(test::same(answer.frames[i], theirs[i])) << test::described(theirs[i]);
  }
  ASSERT_EQ(answer.frames.back().size(), 1U);
  EXPECT_EQ(answer.frames.back()[0].name, "sized");
}

// Of a static program, where .eh_frame is known by its section alone.
TEST(Agreement, StrippedFunctionsAreKnownByTheirFrames) {
  const std::string path = SUBJECT_DIR "/frames-stripped";
  constexpr std::array<std::string_view, 3> names{"_start", "without_frames", "second"};
  const auto named =
      sandbox::FileMemory::from(sandbox::open_regular_at(AT_FDCWD, SUBJECT_DIR "/frames").value());
  const auto symbols = elf::find_file_symbols(**named, names).value();
  std::vector<Address> addresses;
  for (const auto& symbol : symbols) {
    ASSERT_TRUE(symbol);
    addresses.push_back(symbol->value + 1);
  }
  const auto file = sandbox::open_regular_at(AT_FDCWD, path).value();
  Symboliser symboliser;
  const Resolved answer = symboliser.resolve({path, file.get(), {}}, addresses);
  EXPECT_EQ(answer.problem, "");
  for (const std::size_t i : {0U, 2U}) {
    ASSERT_EQ(answer.frames[i].size(), 1U) << names[i];
    EXPECT_EQ(answer.frames[i][0].name, "+" + hex(symbols[i]->value)) << names[i];
  }
  // What is in front of it has ended.
  EXPECT_TRUE(answer.frames[1].empty()) << test::described(answer.frames[1]);
}

// By the line table alone, where it is one of assembly.
TEST(Agreement, LinesOfAssemblyWithoutTheirUnit) {
  const auto lines_at = [](const std::string& path, std::string_view function) {
    auto memory = sandbox::FileMemory::from(sandbox::open_regular_at(AT_FDCWD, path).value());
    const auto elf = elf::read_file(**memory).value();
    const auto content = [&](const char* name) {
      return elf::read_section(**memory, elf, *elf.find(name), 64U << 20).value().bytes;
    };
    const auto lines = content(".debug_line"), strings = content(".debug_line_str");
    const Address start =
        elf::find_file_symbols(**memory, {&function, 1}).value().front().value().value;
    std::vector<std::pair<Address, Frames>> all;
    for (Address address = start; address < start + 4; ++address)
      all.emplace_back(address, find_assembly_line({lines, strings}, elf, start, address));
    return all;
  };
  const std::string path = SUBJECT_DIR "/assembly-lines";
  std::vector<Address> addresses;
  const auto all = lines_at(path, "_start");
  for (const auto& [address, frames] : all) addresses.push_back(address);
  const auto theirs = test::llvm_frames(path, addresses);
  for (std::size_t i = 0; i < all.size(); ++i) {
    Frames frames = all[i].second;
    ASSERT_EQ(frames.size(), 1U) << i;
    EXPECT_EQ(frames[0].name, "");
    EXPECT_TRUE(frames[0].file.ends_with("symbol/assembly.s")) << frames[0].file;
    ASSERT_EQ(theirs[i].size(), 1U);
    frames[0].name = theirs[i][0].name;
    frames[0].start_line = theirs[i][0].start_line;
    EXPECT_TRUE(test::same(frames, theirs[i])) << test::described(theirs[i]);
  }
  // A compiler's unit has more to say.
  for (const auto& [address, frames] :
       lines_at(SUBJECT_DIR "/clang-dwarf5", "_ZN7subject9elsewhereERKSt6vectorIiSaIiEE"))
    EXPECT_TRUE(frames.empty());
}

// Neither compiler gives a linkage name to members of local classes.
TEST(Agreement, MembersOfLocalClassesHaveTheirScope) {
  for (const char* program : {"gcc-dwarf5", "gcc-dwarf4", "clang-dwarf5"}) {
    const std::string path = std::string(SUBJECT_DIR "/") + program;
    const auto file = sandbox::open_regular_at(AT_FDCWD, path).value();
    Symboliser symboliser;
    const Resolved answer =
        symboliser.resolve({path, file.get(), {}}, test::drawn_addresses(path, 2000));
    std::size_t qualified = 0;
    for (const Frames& frames : answer.frames)
      for (const Frame& frame : frames) {
        EXPECT_NE(frame.name, "operator()") << program;
        qualified += frame.name.find("ByKey::operator()") != std::string::npos ? 1U : 0U;
      }
    EXPECT_GT(qualified, 0U) << program;
  }
}

// gcc gives them no linkage name. Two that are inlined into one function must not be one in a profile.
TEST(Agreement, LambdasOfOneFunctionHaveDifferentNames) {
  const std::string path = SUBJECT_DIR "/gcc-dwarf5";
  const auto file = sandbox::open_regular_at(AT_FDCWD, path).value();
  Symboliser symboliser;
  const Resolved answer =
      symboliser.resolve({path, file.get(), {}}, test::drawn_addresses(path, 20'000));
  std::set<std::string> names;
  for (const Frames& frames : answer.frames)
    for (const Frame& frame : frames)
      if (frame.name.starts_with("main::{lambda at ")) names.insert(frame.name);
  EXPECT_EQ(names.size(), 2U) << testing::PrintToString(names);
  for (const std::string& name : names) EXPECT_TRUE(name.ends_with("}::operator()")) << name;
}

}  // namespace
}  // namespace vitrine::symbol
