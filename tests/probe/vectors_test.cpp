// The argument strings of docs/formats/sdt.md, "Worked examples", on the registers and memory of a
// real program; and what gdb makes of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "probe/argument.hpp"
#include "probe/file_symbols.hpp"
#include "site_stops.hpp"
#include "support/child.hpp"

namespace vitrine::probe {
namespace {

/// Each by the name of its probe; a ValueError holds what the error must name.
std::map<std::string, Value> evaluate_all(const char* path) {
  test::ProbedProgram program(path);
  FileSymbols symbols(program.memory(), program.elf());
  std::map<std::string, Value> values;
  test::run_with_stops(
      program, [&](const StapsdtNote& note, const Registers& registers, Memory& memory) {
        auto at = symbols.at(note.address);
        Value& value = values[std::string(note.name)];
        const auto operand = compile_argument(note.arguments, Machine::x86_64, note.address, &at);
        if (!operand) {
          value = ValueError{operand.error().message};
          return;
        }
        const auto bytes = evaluate(*operand, registers, memory);
        value = bytes ? make_value(*operand, *bytes, nullptr) : ValueError{bytes.error().message};
      });
  return values;
}

TEST(Vectors, EvaluateOnARealProgram) {
  for (const char* path : {VITRINE_VECTORS_FIXED, VITRINE_VECTORS_PIE}) {
    const auto values = evaluate_all(path);
    ASSERT_EQ(values.size(), 31U);
    const std::pair<const char*, Value> expected[] = {
        {"v00", std::int64_t{5}},
        {"v01", UINT64_MAX},
        {"v02", UINT64_MAX - 1},
        {"v03", std::uint64_t{16}},
        {"v04", std::int64_t{-2147483647}},
        {"v05", std::uint64_t{2147483649}},
        {"v06", std::int64_t{1}},
        {"v07", std::int64_t{24}},
        {"v08", std::uint64_t{45}},
        {"v09", std::uint64_t{0xfedcba9876543210}},
        {"v10", std::uint64_t{0x76543210}},
        {"v11", std::int64_t{-3}},
        {"v12", std::uint64_t{0xffffffff80000001}},
        {"v13", std::int64_t{-42}},
        {"v14", std::uint64_t{0x1122334455667788}},
        {"v15", UINT64_MAX - 2},
        {"v16", std::uint64_t{0}},
        {"v17", std::int64_t{30}},
        {"v18", std::int64_t{-99}},
        {"v19", std::int64_t{-20}},
        {"v21", std::int64_t{55}},
        {"v24", 3.141592653589793},
        {"v25", 2.5},
        {"v26", std::int64_t{-1310720}},
        {"v28", std::int64_t{77}},
    };
    for (const auto& [name, value] : expected) EXPECT_EQ(values.at(name), value) << path << name;
    // garr is before gint, and v27 is within it.
    EXPECT_EQ(std::get<std::uint64_t>(values.at("v20")) - 12,
              std::get<std::uint64_t>(values.at("v27")));
    const std::pair<const char*, const char*> refused[] = {{"v22", "vector register"},
                                                           {"v23", "vector register"},
                                                           {"v29", "no symbol table has it"},
                                                           {"v30", "scale"}};
    for (const auto& [name, message] : refused)
      EXPECT_THAT(std::get<ValueError>(values.at(name)).message, ::testing::HasSubstr(message));
  }
}

// gdb says "none" where it cannot: docs/formats/sdt.md, "Worked examples".
TEST(Vectors, AreWhatGdbSays) {
  auto gdb =
      test::Child::spawn({"gdb", "-nx", "-batch", "-x", VITRINE_GDB_SCRIPT, VITRINE_VECTORS_FIXED});
  const std::string output = gdb.rest_of_output(std::chrono::seconds(60));
  ASSERT_EQ(gdb.wait(std::chrono::seconds(60)), 0) << gdb.rest_of_errors();
  const auto values = evaluate_all(VITRINE_VECTORS_FIXED);
  std::size_t compared = 0;
  std::istringstream lines(output);
  for (std::string word, name, value; lines >> word;) {
    if (word != "vector" || !(lines >> name >> value) || value == "none") continue;
    if (name == "v02") continue;  // gdb clamps it to 2^63-1
    if (name == "v30") continue;  // it accepts the scale 3, which no instruction has
    if (name == "v22") continue;  // of a vector register it shows the first of two numbers
    const Value& ours = values.at(name);
    if (const auto* number = std::get_if<std::int64_t>(&ours)) {
      EXPECT_EQ(std::to_string(*number), value) << name;
    } else if (const auto* positive = std::get_if<std::uint64_t>(&ours)) {
      EXPECT_EQ(std::to_string(*positive), value) << name;
    } else {
      ADD_FAILURE() << "gdb evaluates " << name << " to " << value;
    }
    ++compared;
  }
  EXPECT_GE(compared, 14U) << output;
}

}  // namespace
}  // namespace vitrine::probe
