// What Debian ships: every note that readelf shows, byte for byte, and every argument parsed.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <sstream>

#include "probe/argument.hpp"
#include "probe/file_symbols.hpp"
#include "site_stops.hpp"
#include "support/child.hpp"

namespace vitrine::probe {
namespace {

/// What `readelf -nW` shows of each note, and we of ours.
std::multimap<std::string, std::string> by_readelf(const std::string& path) {
  auto child = test::Child::spawn({"readelf", "-nW", path});
  std::istringstream lines(child.rest_of_output());
  EXPECT_EQ(child.wait(), 0);
  std::multimap<std::string, std::string> notes;
  std::string provider, name, location;
  const auto field = [](const std::string& line, const std::string& label, std::string& into) {
    const std::size_t at = line.find(label);
    if (at == line.npos) return false;
    into = line.substr(at + label.size());
    return true;
  };
  for (std::string line, arguments; std::getline(lines, line);) {
    if (field(line, "    Provider: ", provider) || field(line, "    Name: ", name) ||
        field(line, "    Location: ", location))
      continue;
    if (field(line, "    Arguments: ", arguments))
      notes.emplace(provider + ":" + name, location + " " + arguments);
  }
  return notes;
}

class Debian : public ::testing::TestWithParam<const char*> {};

TEST_P(Debian, ArgumentsParse) {
  ASSERT_TRUE(std::filesystem::exists(GetParam())) << "packages.txt names its package";
  test::ProbedProgram program(GetParam());
  ASSERT_FALSE(program.notes().empty());
  FileSymbols symbols(program.memory(), program.elf());
  std::multimap<std::string, std::string> ours;
  for (const StapsdtNote& note : program.notes()) {
    char location[128];
    std::snprintf(location, sizeof location, "0x%016lx, Base: 0x%016lx, Semaphore: 0x%016lx ",
                  note.address, note.base, note.semaphore);
    ours.emplace(std::string(note.provider) + ":" + std::string(note.name),
                 location + std::string(note.arguments));
    auto at = symbols.at(note.address);
    for (const std::string& argument : split_arguments(note.arguments)) {
      const auto operand = compile_argument(argument, Machine::x86_64, note.address, &at);
      // Only what the package was stripped of may be missing.
      if (!operand) {
        EXPECT_EQ(operand.error().kind, ArgumentError::Kind::unresolved)
            << argument << ": " << operand.error().message;
      }
    }
  }
  EXPECT_EQ(ours, by_readelf(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Packages, Debian,
                         ::testing::Values("/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
                                           "/usr/bin/stap", "/usr/bin/staprun",
                                           "/usr/bin/python3"));

}  // namespace
}  // namespace vitrine::probe
