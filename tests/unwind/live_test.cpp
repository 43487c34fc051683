// Real programs, stopped at random moments: every stack to its bottom, and as libdwfl has it.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <map>
#include <random>
#include <thread>

#include "base/limits.hpp"
#include "observe/profile/program.hpp"
#include "support/child.hpp"
#include "unwind/sampled_stacks.hpp"
#include "unwind/unwinder.hpp"

namespace vitrine {
namespace {

using unwind::End;
using unwind::Frame;

constexpr std::size_t samples_of_each = 1200;
constexpr int threads = 3;

struct Counts {
  std::size_t samples = 0;
  std::size_t outermost = 0;
  std::size_t other_stack = 0;
  std::size_t equal = 0;
  std::size_t guessed = 0;  ///< libdwfl had no rules where it went another way
  std::size_t lost = 0;  ///< nobody knows on: an exception is about to land, its frames half gone
  std::size_t signals = 0;  ///< stacks with an interrupted function inside
  std::map<std::string, std::size_t> differences;
};

/// "libc.so.6+0x1234"
std::string place(const observe::ProcessCode& code, Address pc) {
  const auto at = code.map.find(pc);
  if (at == unwind::no_region) return fmt::format("nowhere ({:#x})", pc);
  const std::string& name = code.mappings[at].name;
  return fmt::format("{}+{:#x}", name.substr(name.rfind('/') + 1), pc - code.map[at].bias);
}

bool same_frame(const Frame& a, const Frame& b) {
  return a.pc == b.pc && a.is_return_address == b.is_return_address;
}

/// How many frames they have in common, from the innermost on.
std::size_t common_frames(const std::vector<Frame>& a, const std::vector<Frame>& b) {
  const auto [end, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end(), same_frame);
  return static_cast<std::size_t>(end - a.begin());
}

std::string difference(const observe::ProcessCode& code, const std::vector<Frame>& ours, End end,
                       const std::vector<Frame>& theirs) {
  const std::size_t common = common_frames(ours, theirs);
  const auto after = [&](const std::vector<Frame>& frames) {
    return common < frames.size() ? place(code, frames[common].pc) : std::string("the end");
  };
  return fmt::format("after {}: ours {} ({}), libdwfl {}",
                     common == 0 ? "nothing" : place(code, ours[common - 1].pc), after(ours),
                     static_cast<int>(end), after(theirs));
}

class Live : public testing::TestWithParam<const char*> {};

TEST_P(Live, StacksAreWholeAndAsLibdwflHasThem) {
  const std::string name = GetParam();
  std::vector<std::string> command{std::string(SUBJECT_DIR "/") + name, std::to_string(threads)};
  const bool is_static = name.find("static") != name.npos;
  if (!is_static) command.emplace_back(SUBJECT_DIR "/libsubject.so");
  auto child = test::Child::spawn(command);
  ASSERT_EQ(child.read_line(), "ready");

  const int proc = ::open(fmt::format("/proc/{}", child.pid()).c_str(), O_PATH | O_DIRECTORY);
  observe::CodeReader reader;
  const auto code = reader.read(proc);
  ::close(proc);
  ASSERT_TRUE(code) << code.error().message;
  EXPECT_THAT(reader.problems(), testing::IsEmpty());
  unwind::Unwinder unwinder(code->map);
  test::DwflUnwinder dwfl(child.pid());

  const std::vector<pid_t> tids = test::threads_of(child.pid());
  std::mt19937 random(1);
  Counts counts;
  std::vector<Frame> ours, theirs;
  while (counts.samples < samples_of_each) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    const auto sample = test::sample_thread(tids[random() % tids.size()], limits::stack_copy);
    if (!sample) continue;  // the thread that said "ready" has ended
    ++counts.samples;
    const End end = unwinder.unwind(sample->registers, sample->stack(), ours);
    counts.outermost += end == End::outermost;
    for (std::size_t n = 1; n < ours.size(); ++n)
      if (!ours[n].is_return_address) {
        ++counts.signals;
        break;
      }
    dwfl.unwind(*sample, theirs);
    // The handler had a stack of its own, and that is all that was copied.
    counts.other_stack +=
        end == End::other_stack && ours.size() > 1 && !ours.back().is_return_address;
    const std::size_t common = common_frames(ours, theirs);
    const bool theirs_is_nowhere =
        common < theirs.size() && code->map.find(theirs[common].pc) == unwind::no_region;
    if (common == ours.size() && common == theirs.size()) {
      ++counts.equal;
    } else if (common > 0 && !dwfl.has_rules(ours[common - 1])) {
      ++counts.guessed;
    } else if (end == End::bad && common == ours.size() && theirs_is_nowhere) {
      ++counts.lost;
    } else {
      ++counts.differences[difference(*code, ours, end, theirs)];
    }
  }
  fmt::print(
      "{}: {} stacks, {} to the outermost frame, {} to the end of a handler's own stack, {} "
      "through signals, {} as libdwfl has them, {} where it had no rules, {} that nobody knows\n",
      name, counts.samples, counts.outermost, counts.other_stack, counts.signals, counts.equal,
      counts.guessed, counts.lost);
  for (const auto& [what, times] : counts.differences) fmt::print("  {} times {}\n", times, what);
  const double most = 0.99 * static_cast<double>(counts.samples);
  EXPECT_GT(static_cast<double>(counts.outermost + counts.other_stack + counts.lost), most);
  EXPECT_GT(static_cast<double>(counts.equal + counts.guessed + counts.lost), most);
  EXPECT_LT(counts.guessed + counts.lost, counts.samples / 4);
  EXPECT_LT(counts.other_stack, counts.samples / 4);
  EXPECT_GT(counts.signals, 0U);
}

INSTANTIATE_TEST_SUITE_P(Subjects, Live,
                         testing::Values("gcc", "gcc-no-pie", "gcc-mold", "gcc-static",
                                         "gcc-static-pie", "gcc-frame-pointers", "clang",
                                         "clang-lld"),
                         [](const auto& subject) {
                           std::string name = subject.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace vitrine
