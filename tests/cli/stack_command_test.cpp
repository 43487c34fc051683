// vitrine trace --stack: the names of a known chain of calls, in order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "support/child.hpp"

namespace vitrine::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::MatchesRegex;

constexpr std::chrono::seconds patience{60};

class Stacks : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "vitrine_stack_XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
    command({"g++", "-DAS_LIBRARY", "-shared", "-fPIC", SOURCE, "-o", at("libstack.so")});
    command({"g++", SOURCE, at("libstack.so"), "-Wl,--build-id,-rpath," + directory_.string(), "-o",
             at("subject")});
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string at(const std::string& name) const { return directory_ / name; }

  static void command(std::vector<std::string> words) {
    // Optimised, a leaf may fire before it has set up its frame: its caller is then missing.
    if (words[0] == "g++")
      words.insert(words.begin() + 1,
                   {"-std=c++20", "-O0", "-fno-omit-frame-pointer", "-I" INCLUDE_DIR});
    const Outcome outcome = run(words);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }

  /// What one fire shows, `lines` of it.
  std::vector<std::string> trace(std::vector<std::string> options, std::size_t lines) {
    Child child = Child::spawn({at("subject")});
    EXPECT_EQ(child.read_line(patience).value_or("nothing"), "ready");
    std::vector<std::string> words{"sh",
                                   "-c",
                                   "exec \"$@\" 2>&1",
                                   "sh",
                                   VITRINE,
                                   "trace",
                                   std::to_string(child.pid()),
                                   "stacks:paid",
                                   "--stack",
                                   "--limit",
                                   "1"};
    words.insert(words.end(), options.begin(), options.end());
    Child tracer = Child::spawn(words);
    EXPECT_THAT(tracer.read_line(patience).value_or("nothing"), HasSubstr("vitrine: tracing"));
    child.write("\n");
    std::vector<std::string> shown;
    while (shown.size() < lines) shown.push_back(tracer.read_line(patience).value_or("null"));
    return shown;
  }

  void expect_chain() {
    const json event = json::parse(trace({"--json"}, 1)[0]);
    const json& stack = event["stack"];
    ASSERT_GE(stack.size(), 5U) << event;
    const std::vector<std::pair<std::string, std::string>> chain{
        {"shop::pay(Order const&)", "subject"},
        {"(anonymous namespace)::inside(void (*)(Order const&), Order const&)", "libstack.so"},
        {"through_library", "libstack.so"},
        {"shop::check_out(Order const&)", "subject"},
        {"main", "subject"}};
    for (std::size_t i = 0; i < chain.size(); ++i) {
      EXPECT_EQ(stack[i]["function"], chain[i].first) << event;
      EXPECT_EQ(stack[i]["module"], at(chain[i].second));
      EXPECT_LT(stack[i]["offset"].get<int>(), 256);
    }
    // The first is the probe's own place: as far into its page as in the file.
    const auto number = [](const json& hex) {
      return std::stoull(hex.get<std::string>(), nullptr, 16);
    };
    EXPECT_EQ(number(stack[0]["address"]) % 4096, number(event["site"]) % 4096);
  }

  std::filesystem::path directory_;
};

TEST_F(Stacks, NamesTheFunctionsOfProgramsAndLibraries) {
  expect_chain();
}

TEST_F(Stacks, TakesNamesFromSeparateDebugFiles) {
  for (const std::string name : {"subject", "libstack.so"}) {
    command({"objcopy", "--only-keep-debug", at(name), at(name + ".debug")});
    command({"objcopy", "--strip-all", "--add-gnu-debuglink=" + at(name + ".debug"), at(name)});
  }
  expect_chain();
}

TEST_F(Stacks, AFrameALine) {
  const auto lines = trace({}, 3);
  EXPECT_THAT(lines[0], HasSubstr("stacks:paid"));
  EXPECT_THAT(lines[1], MatchesRegex("    shop::pay.Order const&.\\+0x[0-9a-f]+  .subject."));
  EXPECT_THAT(lines[2], HasSubstr("inside("));
}

#if defined(__x86_64__)

// Optimised code uses the register of the frame pointer for anything.
TEST_F(Stacks, EndWhereTheFramePointerIsNone) {
  std::ofstream(at("other.cpp")) << R"(
extern "C" void fired() { asm volatile(""); }
extern "C" { long words[2] = {0, 0x444e41535f534900}; }
asm(".text; call_with_words: push %rbp; lea words(%rip), %rbp; call fired; pop %rbp; ret");
extern "C" void call_with_words();
int main() { words[0] = 0; call_with_words(); }
)";
  command({"g++", at("other.cpp"), "-o", at("other")});
  const Outcome traced = run({VITRINE, "trace", "--exec", "--json", "--stack",
                              "func:" + at("other") + ":fired", "--", at("other")});
  ASSERT_EQ(traced.status, 0) << traced.err;
  const json stack = json::parse(traced.out.substr(0, traced.out.find('\n')))["stack"];
  EXPECT_EQ(stack[0]["function"], "fired") << stack;
  for (const json& frame : stack) EXPECT_EQ(frame["module"], at("other")) << stack;
}

/// The functions of frames, the innermost first, up to main; inlined ones in parentheses.
std::vector<std::string> functions_of(const json& frames) {
  std::vector<std::string> names;
  for (const json& frame : frames) {
    const std::string name = frame["function"].is_string() ? frame["function"] : "?";
    names.push_back(frame.value("inlined", false) ? '(' + name + ')' : name);
    if (name == "main") break;
  }
  return names;
}

// What a symbol table, debug information or a JIT compiler names is named the same by both.
TEST_F(Stacks, FiresAndSamplesHaveTheSameNames) {
  std::ofstream(at("versions")) << "V_1 { global: with_version; local: *; };\n";
  command({"g++", "-g", "-DAS_LIBRARY", "-shared", "-fPIC",
           "-Wl,--version-script=" + at("versions"), NAMES_SOURCE, "-o", at("libnames.so")});
  command({"g++", "-g", NAMES_SOURCE, at("libnames.so"), "-Wl,-rpath," + directory_.string(), "-o",
           at("names")});
  Child child = Child::spawn({at("names")});
  ASSERT_EQ(child.read_line(patience).value_or("nothing"), "ready");
  const std::string pid = std::to_string(child.pid());

  const Outcome traced =
      run({VITRINE, "trace", pid, "names:spun", "--stack", "--json", "--limit", "1"});
  ASSERT_EQ(traced.status, 0) << traced.err;
  const auto of_fire = functions_of(json::parse(traced.out)["stack"]);
  EXPECT_THAT(of_fire,
              testing::ElementsAre("(names::inlined())", "names::work()", "made_at_run_time",
                                   "without_size", "with_version", "main"));

  const Outcome profiled = run({VITRINE, "profile", pid, "--freq", "499", "--duration", "1s",
                                "--format", "json", "-o", "-"});
  ASSERT_EQ(profiled.status, 0) << profiled.err;
  std::set<std::vector<std::string>> of_samples;
  std::istringstream lines(profiled.out);
  for (std::string line; std::getline(lines, line);)
    if (const json object = json::parse(line); object.contains("frames"))
      of_samples.insert(functions_of(object["frames"]));
  EXPECT_TRUE(of_samples.contains(of_fire)) << testing::PrintToString(of_samples);

  const auto text = run({VITRINE, "trace", pid, "names:spun", "--stack", "--limit", "1"});
  EXPECT_THAT(text.out,
              HasSubstr("\n    names::inlined()  inlined  (names)\n    names::work()+0x"));
  EXPECT_THAT(text.out, HasSubstr("\n    made_at_run_time+0x10  (?)\n"));
  std::filesystem::remove("/tmp/perf-" + pid + ".map");
}

#endif

}  // namespace
}  // namespace vitrine::test
