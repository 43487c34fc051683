// Every kind of parse, of files that their parser cannot stand (fault.cpp): told, the rest kept.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "check/check.hpp"
#include "observe/probes/probes.hpp"
#include "sandbox/files.hpp"
#include "sandbox/worker.hpp"
#include "support/child.hpp"
#include "symbol/function_symbols.hpp"

namespace vitrine::test {
namespace {

struct Fault {
  const char* name;
  const char* mark;
  const char* message;
};
constexpr Fault faults[] = {
    {"crash", "!crash!", "its parser crashed (Segmentation fault)"},
    {"stall", "!stall!", "its parser was stopped: it took longer than 1 s"},
    {"memory", "!eats!!", "its parser was stopped: it needed more than 256 MiB"},
};

class Files : public testing::TestWithParam<Fault> {
 protected:
  Files() {
    directory_ =
        std::filesystem::temp_directory_path() / ("vitrine-worker-" + std::to_string(::getpid()));
    std::filesystem::create_directories(directory_);
    bad_ = directory_ / "bad";
    std::filesystem::copy_file(PROBE_SUBJECT, bad_,
                               std::filesystem::copy_options::overwrite_existing);
    std::fstream file(bad_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(9);
    file.write(GetParam().mark, 7);
    const bool stalls = std::string_view(GetParam().name) == "stall";
    sandbox::Parser::of_this_thread().set_limits(
        {256U << 20, std::chrono::seconds(stalls ? 1 : 30)});
  }
  ~Files() override { std::filesystem::remove_all(directory_); }

  /// `parse` a file: its error, or "".
  void expect_reported(const std::function<std::string(const std::string&)>& parse) {
    const std::string told = parse(bad_);
    EXPECT_NE(told.find(GetParam().message), std::string::npos) << told;
    sandbox::Parser::of_this_thread().set_limits({});
    EXPECT_EQ(parse(PROBE_SUBJECT), "");
  }

  std::filesystem::path directory_;
  std::string bad_;
};

template <class T>
std::string message(const Result<T>& result) {
  return result ? "" : result.error().message;
}

TEST_P(Files, OfProbes) {
  expect_reported(
      [](const std::string& path) { return message(observe::ProbeFiles().open(path)); });
}

TEST_P(Files, OfDof) {
  expect_reported([](const std::string& path) { return message(observe::list_dof(path)); });
}

TEST_P(Files, OfExecutables) {
  expect_reported([](const std::string& path) {
    auto memory =
        sandbox::FileMemory::from(sandbox::open_regular_at(AT_FDCWD, path).value()).value();
    constexpr std::string_view names[] = {"main"};
    return message(symbol::read_executable(*memory, names));
  });
}

TEST_P(Files, ThatAreChecked) {
  expect_reported([](const std::string& path) { return message(check::check_file(path, {})); });
}

INSTANTIATE_TEST_SUITE_P(, Files, testing::ValuesIn(faults),
                         [](const auto& one) { return std::string(one.param.name); });

using FilesOfCommands = Files;

// What a user sees.
TEST_P(FilesOfCommands, AreToldAndTheOthersShown) {
  const ChildOptions preloaded{{"LD_PRELOAD=" FAULT_LIBRARY}, true, 0};
  const Outcome probes = run({VITRINE, "probes", bad_, PROBE_SUBJECT}, preloaded);
  EXPECT_NE(probes.err.find("bad: " + std::string(GetParam().message)), std::string::npos)
      << probes.err;
  EXPECT_NE(probes.out.find(PROBE_SUBJECT), std::string::npos) << probes.out;
  EXPECT_EQ(probes.status, 1);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"check", bad_}, {"usdt", "dump", bad_}}) {
    std::vector<std::string> words{VITRINE};
    words.insert(words.end(), command.begin(), command.end());
    const Outcome outcome = run(words, preloaded);
    EXPECT_NE(outcome.err.find("bad: " + std::string(GetParam().message)), std::string::npos)
        << outcome.err;
    EXPECT_EQ(outcome.status, 1) << command[0];
  }
}

// No object is changed, and the next one to blame is named.
TEST_P(FilesOfCommands, AreNoObjectsToLink) {
  const ChildOptions preloaded{{"LD_PRELOAD=" FAULT_LIBRARY}, true, 0};
  const std::string definition = directory_ / "shop.d", output = directory_ / "shop.o";
  std::ofstream(definition) << "provider shop { probe done(); };\n";
  const Outcome outcome =
      run({VITRINE, "usdt", "link", "-s", definition, "-o", output, bad_}, preloaded);
  EXPECT_NE(outcome.err.find(bad_ + ": " + GetParam().message), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.status, 1);
  EXPECT_FALSE(std::filesystem::exists(output));
}

INSTANTIATE_TEST_SUITE_P(, FilesOfCommands, testing::Values(faults[0]),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace vitrine::test
