// vitrine trace --stack: the names of a known chain of calls, in order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <nlohmann/json.hpp>

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

}  // namespace
}  // namespace vitrine::test
