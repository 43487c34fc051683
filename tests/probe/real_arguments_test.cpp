// Programs of all argument types, by every compiler: each argument is what the program printed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "probe/argument.hpp"
#include "probe/file_symbols.hpp"
#include "site_stops.hpp"
#include "support/child.hpp"

namespace vitrine::probe {
namespace {

struct Build {
  const char* compiler;
  const char* level;
  const char* header;
  std::vector<std::string> options;
  std::string name;
};

void PrintTo(const Build& build, std::ostream* out) {
  *out << build.name;
}

std::vector<Build> builds() {
  std::vector<Build> all;
  for (const char* compiler : {"gcc", "g++", "clang", "clang++"})
    for (const char* level : {"-O0", "-O1", "-O2", "-O3"})
      for (const char* header : {"<sys/sdt.h>", "\"vitrine/compat/sys/sdt.h\""})
        for (const bool movable : {true, false}) {
          Build build{compiler, level, header, {"-fno-pie", "-no-pie"}, {}};
          if (movable) build.options = {"-fPIE", "-pie"};
          build.name =
              fmt::format("{}_{}_{}_{}", compiler, level + 1,
                          header[0] == '<' ? "systemtap" : "ours", movable ? "pie" : "fixed");
          for (char& c : build.name)
            if (c == '+') c = 'x';
          all.push_back(std::move(build));
        }
  return all;
}

class RealArguments : public ::testing::TestWithParam<Build> {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/vitrine-arguments-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string compile() {
    const Build& build = GetParam();
    const std::string program = directory_ + "/program";
    std::vector<std::string> command{build.compiler,
                                     build.level,
                                     "-g",
                                     "-w",
                                     fmt::format("-DSDT_HEADER={}", build.header),
                                     "-I" VITRINE_SOURCE "/include"};
    // clang keeps arguments in registers by our header, which long doubles and structures do not fit.
    if (std::string(build.compiler).starts_with("clang") && build.header[0] == '"')
      command.emplace_back("-DSTAP_SDT_ARG_CONSTRAINT=nor");
    const bool cxx = std::string(build.compiler).ends_with("++");
    command.insert(command.end(),
                   {"-x", cxx ? "c++" : "c", VITRINE_SOURCE "/tests/probe/arguments.c"});
    command.insert(command.end(), build.options.begin(), build.options.end());
    command.insert(command.end(), {"-o", program});
    auto child = test::Child::spawn(command);
    const std::string errors = child.rest_of_errors(std::chrono::seconds(60));
    EXPECT_EQ(child.wait(std::chrono::seconds(60)), 0) << errors;
    return program;
  }

  std::string directory_;
};

/// As arguments.c prints them.
std::string printed(const Value& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  if (const auto* number = std::get_if<std::uint64_t>(&value)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{:a}", *number);
  if (const auto* error = std::get_if<ValueError>(&value)) return "error: " + error->message;
  std::string text;
  if (const auto* bytes = std::get_if<BytesValue>(&value))
    for (const std::byte byte : bytes->bytes)
      text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

TEST_P(RealArguments, AreWhatTheProgramPrints) {
  test::ProbedProgram program(compile());
  ASSERT_GT(program.notes().size(), 15U);
  FileSymbols symbols(program.memory(), program.elf());
  struct Fire {
    std::string name, list;
    std::vector<std::string> values;
  };
  std::vector<Fire> fires;
  std::size_t labels = 0;
  const std::string output = test::run_with_stops(
      program, [&](const StapsdtNote& note, const Registers& registers, Memory& memory) {
        Fire& fire = fires.emplace_back();
        fire.name = note.name;
        fire.list = note.arguments;
        auto at = symbols.at(note.address);
        for (const std::string& argument : split_arguments(note.arguments)) {
          const auto operand = compile_argument(argument, Machine::x86_64, note.address, &at);
          if (!operand) {
            // Constants in memory have labels that no file keeps. Nothing else may be missing.
            EXPECT_EQ(operand.error().kind, ArgumentError::Kind::unresolved);
            EXPECT_NE(argument.find("(%rip)"), argument.npos) << argument;
            EXPECT_NE(argument.find(".LC"), argument.npos)
                << argument << ": " << operand.error().message;
            fire.values.emplace_back();
            ++labels;
            continue;
          }
          const auto bytes = evaluate(*operand, registers, memory);
          EXPECT_TRUE(bytes) << argument << (bytes ? "" : bytes.error().message);
          fire.values.push_back(bytes ? printed(make_value(*operand, *bytes, nullptr))
                                      : std::string("unread"));
        }
      });
  std::istringstream lines(output);
  std::size_t compared = 0;
  for (const Fire& fire : fires) {
    std::string line;
    ASSERT_TRUE(std::getline(lines, line)) << "the program printed too little";
    std::istringstream words(line);
    std::string word;
    words >> word;
    ASSERT_EQ(fire.name, word);
    for (const std::string& value : fire.values) {
      ASSERT_TRUE(words >> word) << line;
      if (value.empty()) continue;
      EXPECT_EQ(value, word) << fire.name << ": " << fire.list << "\n" << line;
      ++compared;
    }
    EXPECT_FALSE(words >> word) << line << " has more than " << fire.list;
  }
  std::string rest;
  EXPECT_FALSE(std::getline(lines, rest)) << rest;
  EXPECT_GT(compared, 100U);
  EXPECT_LT(labels, 8U);
}

INSTANTIATE_TEST_SUITE_P(Compilers, RealArguments, ::testing::ValuesIn(builds()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace vitrine::probe
