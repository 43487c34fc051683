// `vitrine probes` as a user meets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/child.hpp"

namespace vitrine::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Outcome probes(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {VITRINE, "probes"});
  return run(std::move(arguments));
}

std::vector<nlohmann::json> objects(const Outcome& outcome) {
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::vector<nlohmann::json> all;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
  return all;
}

TEST(Probes, OfAFileAreATable) {
  const Outcome outcome = probes({PROBE_SUBJECT});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err, "");
  std::istringstream lines(outcome.out);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, PROBE_SUBJECT);
  std::getline(lines, line);
  EXPECT_EQ(line.substr(0, 42), "  PROBE            SITES  SEMAPHORE  ARGUM");
  std::getline(lines, line);
  EXPECT_EQ(line, "  subject:bare     1      yes");
  std::getline(lines, line);
  EXPECT_THAT(line, HasSubstr("  subject:guarded  1      yes        -4@%"));
  std::getline(lines, line);
  EXPECT_THAT(line, HasSubstr("  subject:inlined  2      yes        -4@%"));
}

/// A file with plain notes is read in the command's own process, which then can do nothing else: any
/// other system call would end it. Two files are read by workers, which find the same.
TEST(Probes, OfOneFileAreReadInConfinement) {
  for (const std::string file : {PROBE_SUBJECT, VITRINE}) {  // the second has a static libstdc++
    const Outcome alone = run({"env", "VITRINE_SECCOMP=kill", VITRINE, "probes", file});
    EXPECT_EQ(alone.status, 0) << alone.err;
    EXPECT_EQ(alone.err, "");
    EXPECT_THAT(alone.out, HasSubstr(":"));
    EXPECT_EQ(probes({file, file}).out, alone.out + alone.out);
  }
  const Outcome selected =
      run({"env", "VITRINE_SECCOMP=kill", VITRINE, "probes", PROBE_SUBJECT, "nothing*"});
  EXPECT_EQ(selected.status, 1);
  EXPECT_THAT(selected.err, HasSubstr("no probe matches"));
}

TEST(Probes, WithSitesShowWhereTheyAre) {
  const Outcome outcome = probes({"--sites", PROBE_SUBJECT, "inlined*"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 4) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("build id "));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("  semaphore 0x[0-9a-f]+  -4@.*  in work\n"));
}

TEST(Probes, AsJsonKeepTheContract) {
  const auto all = objects(probes({"--json", PROBE_SUBJECT}));
  ASSERT_EQ(all.size(), 3U);
  const auto& inlined = all[2];
  EXPECT_EQ(inlined["kind"], "sdt");
  EXPECT_EQ(inlined["provider"], "subject");
  EXPECT_EQ(inlined["name"], "inlined");
  EXPECT_EQ(inlined["module"], PROBE_SUBJECT);
  EXPECT_EQ(inlined["build_id"].get<std::string>().size(), 40U);
  EXPECT_FALSE(inlined.contains("pid"));
  ASSERT_EQ(inlined["sites"].size(), 2U);
  const auto& site = inlined["sites"][0];
  EXPECT_EQ(site["address"].get<std::string>().substr(0, 2), "0x");
  EXPECT_EQ(site["file_offset"].get<std::string>().substr(0, 2), "0x");
  EXPECT_EQ(site["function"], "work");
  EXPECT_EQ(site["args"].size(), 2U);
  EXPECT_EQ(site["semaphore"].get<std::string>().substr(0, 2), "0x");
  EXPECT_FALSE(site.contains("runtime_address"));
  EXPECT_FALSE(site.contains("problems"));
  EXPECT_EQ(all[0]["sites"][0]["args"].size(), 0U);
}

TEST(Probes, OfAProcessHaveRuntimeAddresses) {
  Child child = Child::spawn({PROBE_SUBJECT});
  child.read_until("ready");
  const std::string pid = std::to_string(child.pid());
  const auto all = objects(probes({"--json", pid, "subject:*"}));
  const auto of_file = objects(probes({"--json", PROBE_SUBJECT}));
  ASSERT_EQ(all.size(), of_file.size());
  const auto number = [](const nlohmann::json& text) {
    return std::stoull(text.get<std::string>(), nullptr, 16);
  };
  const auto bias =
      number(all[0]["sites"][0]["runtime_address"]) - number(of_file[0]["sites"][0]["address"]);
  EXPECT_GT(bias, 0U) << "a position-independent executable";
  EXPECT_EQ(bias % 4096, 0U);
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t k = 0; k < all[i]["sites"].size(); ++k) {
      EXPECT_EQ(all[i]["pid"], child.pid());
      EXPECT_EQ(number(all[i]["sites"][k]["runtime_address"]),
                number(of_file[i]["sites"][k]["address"]) + bias);
    }
  const Outcome text = probes({pid});
  EXPECT_THAT(text.out, HasSubstr("subject:guarded"));
}

TEST(Probes, ArePickedByPatterns) {
  const auto names = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--json", PROBE_SUBJECT});
    std::vector<std::string> all;
    for (const auto& object : objects(probes(arguments))) all.push_back(object["name"]);
    return all;
  };
  EXPECT_THAT(names({"subject:*"}), ElementsAre("bare", "guarded", "inlined"));
  EXPECT_THAT(names({"s*:[bg]*"}), ElementsAre("bare", "guarded"));
  EXPECT_THAT(names({"*:bare", "*:inlined"}), ElementsAre("bare", "inlined"));
  EXPECT_THAT(names({"?are"}), ElementsAre("bare"));
  const Outcome none = probes({PROBE_SUBJECT, "subject:nothing*"});
  EXPECT_EQ(none.status, 1);
  EXPECT_EQ(none.out, "");
  EXPECT_THAT(none.err, HasSubstr("no probe matches"));
}

TEST(Probes, OfABadTargetDoNotKeepBackTheOthers) {
  const Outcome outcome = probes({"/etc/passwd", PROBE_SUBJECT});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("/etc/passwd: it is not an ELF file"));
  EXPECT_THAT(outcome.out, HasSubstr("subject:bare"));
}

TEST(Probes, OfNothingExitAsTheContractSays) {
  EXPECT_EQ(probes({"/nowhere"}).status, 4);
  EXPECT_EQ(probes({"no-such-program"}).status, 4);
  EXPECT_EQ(probes({"4194300"}).status, 4);
  EXPECT_EQ(probes({"*:*"}).status, 2);
  EXPECT_EQ(probes({}).status, 2);
  EXPECT_EQ(probes({"/dev/zero"}).status, 1);
  const Outcome none = probes({"cat"});  // found in PATH
  EXPECT_EQ(none.status, 0);
  EXPECT_THAT(none.out, HasSubstr("/cat: no probes"));
}

/// A program with a probe in a function of each name.
std::string program_with(const std::vector<std::string>& functions, const std::string& directory) {
  const std::string source = directory + "/functions.s", program = directory + "/functions";
  std::ofstream out(source);
  out << "  .text\n  .globl _start\n_start:\n";
  for (std::size_t i = 0; i < functions.size(); ++i)
    out << "  .type \"" << functions[i] << "\", %function\n\"" << functions[i] << "\":\n"
        << "1: nop\n  .size \"" << functions[i] << "\", . - \"" << functions[i] << "\"\n"
        << "  .pushsection .note.stapsdt, \"?\", \"note\"\n  .balign 4\n"
        << "  .4byte 8, 4f - 3f, 3\n  .asciz \"stapsdt\"\n3:  .8byte 1b, 0, 0\n"
        << "  .asciz \"named\"\n  .asciz \"in_" << i << "\"\n  .asciz \"\"\n4: .balign 4\n"
        << "  .popsection\n";
  out.close();
  const Outcome built = run({"gcc", "-nostdlib", "-static", "-o", program, source});
  EXPECT_EQ(built.status, 0) << built.err;
  return program;
}

// A hostile symbol table costs its names: they are shown as they are.
TEST(Probes, FunctionsAreDemangledUnlessTheyUnfoldWithoutEnd) {
  std::string directory = "/tmp/vitrine-probes-XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  std::string cxx = "_Z1f1aIiiE";
  for (char digit = '0'; digit <= '8'; digit += 2)
    cxx += std::string("1bIS") + digit + "_S" + digit + "_S" + digit + "_S" + digit + "_S" + digit +
           "_S" + digit + "_E";
  const std::vector<std::pair<std::string, std::string>> functions{
      {"_ZN4shop5serveEi", "shop::serve(int)"},
      {"_RNvC4shop5serve", "shop::serve"},
      {"serve", "serve"},
      {cxx, cxx},
      {"_RNvC1a" + std::string(3000, 'S') + "h", "_RNvC1a" + std::string(3000, 'S') + "h"},
      {"_Z1f" + std::string(4000, 'P') + "i", "_Z1f" + std::string(4000, 'P') + "i"},
      {"_RB_", "_RB_"}};
  std::vector<std::string> symbols;
  for (const auto& [symbol, shown] : functions) symbols.push_back(symbol);
  const std::string program = program_with(symbols, directory);
  const auto all = objects(probes({"--json", program}));
  const Outcome text = probes({"--sites", program});
  EXPECT_EQ(text.err, "");
  ASSERT_EQ(all.size(), functions.size());
  for (std::size_t i = 0; i < functions.size(); ++i) {
    const std::string shown = functions[i].second;
    EXPECT_EQ(all[i]["name"], "in_" + std::to_string(i));
    EXPECT_EQ(all[i]["sites"][0]["function"], shown);
    EXPECT_THAT(text.out, HasSubstr("  in " + shown + "\n"));
  }
  std::filesystem::remove_all(directory);
}

TEST(Probes, NamesOfFilesAreShownAndNotObeyed) {
  char name[] = "/tmp/vitrine-probes-XXXXXX";
  const std::string directory = ::mkdtemp(name);
  const std::string odd = directory + "/\x1b[31mred";
  std::filesystem::copy_file(PROBE_SUBJECT, odd);
  const Outcome text = probes({odd});
  EXPECT_THAT(text.out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text.out, HasSubstr("\\x1b[31mred"));
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace vitrine::test
