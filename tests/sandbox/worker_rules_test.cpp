// Call frame information that its parser cannot stand (fault.cpp): told once, with the file's name
// and the reason; the stacks of other files are as ever.
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <thread>

#include "base/limits.hpp"
#include "elf/file.hpp"
#include "observe/profile/program.hpp"
#include "sandbox/files.hpp"
#include "support/child.hpp"
#include "unwind/frame_table.hpp"
#include "unwind/sampled_stacks.hpp"
#include "unwind/unwinder.hpp"

namespace vitrine::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* library = "/usr/lib/x86_64-linux-gnu/libc.so.6";

struct Fault {
  const char* name;
  const char* mark;
  const char* message;
};
constexpr Fault faults[] = {
    {"crash", "!crash!", "its parser crashed (Segmentation fault)"},
    {"stall", "!stall!", "its parser was stopped: it took longer than 10 s"},
    {"memory", "!eats!!", "its parser was stopped: it needed more than 256 MiB"},
};

/// Copies of one program.
class RuleFiles : public testing::Test {
 protected:
  RuleFiles() {
    directory_ =
        std::filesystem::temp_directory_path() / ("vitrine-rules-" + std::to_string(::getpid()));
    std::filesystem::create_directories(directory_);
    bad_ = directory_ / "bad";
  }
  ~RuleFiles() override { std::filesystem::remove_all(directory_); }

  std::string copy(const char* from, const char* name) const {
    const std::string path = directory_ / name;
    std::filesystem::copy_file(from, path, std::filesystem::copy_options::overwrite_existing);
    return path;
  }
  /// In the KiB at an offset.
  static void mark(const std::string& path, std::uint64_t offset, const char* text) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset / 1024 * 1024 + 9));
    file.write(text, 7);
  }
  static std::unique_ptr<sandbox::FileMemory> open(const std::string& path) {
    return sandbox::FileMemory::from(sandbox::open_regular_at(AT_FDCWD, path).value()).value();
  }
  static std::shared_ptr<unwind::FrameTable> table_of(const std::string& path) {
    return unwind::FrameTable::open(open(path)).value();
  }
  static elf::Section frames_of(const std::string& path) {
    auto memory = open(path);
    const auto elf = elf::read_file(*memory).value();
    return *elf.find(".eh_frame");
  }
  /// `take` of some `addresses` of each executable segment.
  static void each_address(const unwind::FrameTable& table, std::size_t addresses,
                           const std::function<void(Address)>& take) {
    for (const elf::Segment& segment : table.segments()) {
      if (segment.type != PT_LOAD || (segment.flags & PF_X) == 0) continue;
      const Address step = segment.file_size / addresses + 1;
      for (Address at = 0; at < segment.file_size; at += step) take(segment.address + at);
    }
  }
  [[nodiscard]] std::string told(const std::string& why) const {
    return bad_ + ": stacks are unwound by frame pointers: " + why;
  }

  observe::RuleLimits limits_;
  std::filesystem::path directory_;
  std::string bad_;
};

class Rules : public RuleFiles, public testing::WithParamInterface<Fault> {
 protected:
  Rules() {
    const bool stalls = std::string_view(GetParam().name) == "stall";
    limits_.worker = {256U << 20, std::chrono::seconds(stalls ? 10 : 60)};
    limits_.slow = std::chrono::minutes(5);  // machines may be slow, too
  }
};

struct Unwound {
  std::size_t samples = 0;
  std::size_t whole = 0;
  std::size_t without_rules = 0;
};

Unwound unwind_all(const Child& child, const observe::ProcessCode& code) {
  unwind::Unwinder unwinder(code.map);
  const auto tids = threads_of(child.pid());
  std::mt19937 random(1);
  std::vector<unwind::Frame> frames;
  Unwound unwound;
  while (unwound.samples < 300) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    const auto sample = sample_thread(tids[random() % tids.size()], limits::stack_copy);
    if (!sample) continue;  // the thread that said "ready" has ended
    ++unwound.samples;
    const auto end = unwinder.unwind(sample->registers, sample->stack(), frames);
    unwound.whole += end == unwind::End::outermost;
    unwound.without_rules += end == unwind::End::no_rule || end == unwind::End::bad;
  }
  return unwound;
}

TEST_P(Rules, OfOneFileCostNoOther) {
  copy(SUBJECT, "bad");
  mark(bad_, 0, GetParam().mark);
  const ChildOptions one_stack{{"ONE_STACK=1"}, true, 0};
  auto bad = Child::spawn({bad_, "2"}, one_stack);
  auto good = Child::spawn({copy(SUBJECT, "good"), "2"}, one_stack);
  ASSERT_EQ(bad.read_line(), "ready");
  ASSERT_EQ(good.read_line(), "ready");
  observe::CodeReader reader(limits_);
  const auto read = [&](const Child& child) {
    const FileDescriptor proc(
        ::open(fmt::format("/proc/{}", child.pid()).c_str(), O_PATH | O_DIRECTORY));
    return reader.read(proc.get()).value();
  };
  const auto bad_code = read(bad), good_code = read(good), bad_again = read(bad);
  EXPECT_THAT(reader.problems(), ElementsAre(told(GetParam().message)));
  const Unwound rest = unwind_all(good, good_code);
  EXPECT_GE(rest.whole, rest.samples * 95 / 100);
  const Unwound without = unwind_all(bad, bad_again);
  EXPECT_GT(without.without_rules, without.samples / 10);
  EXPECT_THAT(reader.problems(), ElementsAre(told(GetParam().message)));
}

// It was open, and had answered, when a question was too much for it.
TEST_P(Rules, ThatWereKnownAreKept) {
  const elf::Section frames = frames_of(copy(library, "bad"));
  mark(bad_, frames.offset + frames.size / 2, GetParam().mark);
  const auto table = table_of(library);
  const auto worker = observe::RuleWorker::make(limits_);
  const auto good = worker->open(open(library), library).value();
  const auto bad = worker->open(open(bad_), bad_).value();
  EXPECT_THAT(worker->problems(), IsEmpty());
  std::vector<Address> known;
  each_address(*table, 1000, [&](Address at) {
    const unwind::Rule truth = table->rule(at);
    EXPECT_EQ(good->rule(at), truth) << at;
    if (truth.form != unwind::Rule::Form::none && bad->rule(at) == truth) known.push_back(at);
  });
  EXPECT_THAT(worker->problems(), ElementsAre(told(GetParam().message)));
  ASSERT_GT(known.size(), 16U);
  for (const Address at : known) EXPECT_EQ(bad->rule(at), table->rule(at));
  EXPECT_EQ(bad->row(known.front()), nullptr);
  EXPECT_NE(good->row(known.front()), nullptr);
}

INSTANTIATE_TEST_SUITE_P(, Rules, testing::ValuesIn(faults),
                         [](const auto& one) { return std::string(one.param.name); });

using RulesOfCommands = Rules;

// What a user sees.
TEST_P(RulesOfCommands, AreToldAndTheOthersShown) {
  mark(copy(SUBJECT, "bad"), 0, GetParam().mark);
  auto bad = Child::spawn({bad_, "1"}), good = Child::spawn({copy(SUBJECT, "good"), "1"});
  ASSERT_EQ(bad.read_line(), "ready");
  ASSERT_EQ(good.read_line(), "ready");
  const Outcome outcome =
      run({VITRINE, "profile", std::to_string(bad.pid()), std::to_string(good.pid()), "--duration",
           "2s", "--format", "folded"},
          {{"LD_PRELOAD=" FAULT_LIBRARY}, true, 0});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.err.find(told(GetParam().message)), std::string::npos) << outcome.err;
  // Whole stacks of the other, with names.
  EXPECT_NE(outcome.out.find("_start;__libc_start_main"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("main;(anonymous namespace)::for_ever("), std::string::npos)
      << outcome.out;
}

INSTANTIATE_TEST_SUITE_P(, RulesOfCommands, testing::Values(faults[0]),
                         [](const auto& one) { return std::string(one.param.name); });

// Each answer comes, but they take their time.
TEST_F(RuleFiles, ThatAreSlowAreGivenUp) {
  const elf::Section frames = frames_of(copy(library, "bad"));
  for (Address at = frames.offset + 1024; at < frames.offset + frames.size; at += 1024)
    mark(bad_, at, "!slow!!");
  limits_.worker.time = std::chrono::seconds(60);
  limits_.slow = std::chrono::milliseconds(300);
  const auto worker = observe::RuleWorker::make(limits_);
  const auto bad = worker->open(open(bad_), bad_).value();
  each_address(*table_of(library), 1000, [&](Address at) { bad->rule(at); });
  EXPECT_THAT(worker->problems(), ElementsAre(told("its parser took longer than 0.3 s in total")));
}

/// As the file says.
void expect_rules(observe::FileRules& rules, unwind::FrameTable& table, Address at) {
  ASSERT_EQ(rules.rule(at), table.rule(at)) << at;
  const unwind::Row *row = rules.row(at), *truth = table.row(at);
  ASSERT_EQ(row == nullptr, truth == nullptr) << at;
  ASSERT_TRUE(row == nullptr || *row == *truth) << at;
}

class RulesKept : public RuleFiles {
 protected:
  static void expect_all(observe::FileRules& rules, const std::string& path) {
    const auto table = table_of(path);
    each_address(*table, 2000, [&](Address at) { expect_rules(rules, *table, at); });
  }
};

TEST_F(RulesKept, AreThoseOfTheFile) {
  const auto worker = observe::RuleWorker::make({});
  expect_all(*worker->open(open(library), library).value(), library);
  expect_all(*worker->open(open(SUBJECT), SUBJECT).value(), SUBJECT);
  EXPECT_THAT(worker->problems(), IsEmpty());
}

TEST_F(RulesKept, BeginAnewWhenThereAreTooMany) {
  observe::RuleLimits limits;
  limits.kept = 4096;
  const auto worker = observe::RuleWorker::make(limits);
  const auto rules = worker->open(open(library), library).value();
  expect_all(*rules, library);
  expect_all(*rules, library);
  EXPECT_THAT(worker->problems(), IsEmpty());
}

TEST_F(RulesKept, OfOneFileAreSharedByItsIdentity) {
  const auto worker = observe::RuleWorker::make({});
  const auto first = worker->open(open(library), library).value();
  EXPECT_EQ(worker->open(open(library), "/another/name").value(), first);
  EXPECT_NE(worker->open(open(SUBJECT), SUBJECT).value(), first);
}

TEST_F(RulesKept, AreAskedOfAnotherWorkerIfOneEnded) {
  const auto worker = observe::RuleWorker::make({});
  const auto rules = worker->open(open(library), library).value();
  const auto children = [] {
    std::ifstream in(fmt::format("/proc/self/task/{}/children", ::gettid()));
    return std::vector<pid_t>(std::istream_iterator<pid_t>(in), {});
  };
  const auto first = children();
  ASSERT_EQ(first.size(), 1U);
  ::kill(first[0], SIGKILL);
  siginfo_t info;
  ::waitid(P_PID, static_cast<id_t>(first[0]), &info, WEXITED | WNOWAIT);
  expect_all(*rules, library);
  EXPECT_THAT(worker->problems(), IsEmpty());
  EXPECT_NE(children(), first);
}

}  // namespace
}  // namespace vitrine::test
