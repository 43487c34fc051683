// Real programs, stopped at random moments: every stack to its bottom, and as libdwfl has it.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <map>
#include <random>
#include <thread>

#include "base/limits.hpp"
#include "observe/process_code.hpp"
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

std::string difference(const observe::ProcessCode& code, const std::vector<Frame>& ours, End end,
                       const std::vector<Frame>& theirs) {
  std::size_t common = 0;
  const auto same = [&](std::size_t n) {
    return ours[n].pc == theirs[n].pc && ours[n].is_return_address == theirs[n].is_return_address;
  };
  while (common < ours.size() && common < theirs.size() && same(common)) ++common;
  const auto after = [&](const std::vector<Frame>& frames) {
    return common < frames.size() ? place(code, frames[common].pc) : std::string("the end");
  };
  return fmt::format("after {}: ours {} ({}), libdwfl {}",
                     common == 0 ? "nothing" : place(code, ours[common - 1].pc), after(ours),
                     name_of(end), after(theirs));
}

bool same_frames(const std::vector<Frame>& a, const std::vector<Frame>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Frame& x, const Frame& y) {
    return x.pc == y.pc && x.is_return_address == y.is_return_address;
  });
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
        end == End::truncated && ours.size() > 1 && !ours.back().is_return_address;
    if (same_frames(ours, theirs)) {
      ++counts.equal;
    } else {
      ++counts.differences[difference(*code, ours, end, theirs)];
    }
  }
  fmt::print(
      "{}: {} stacks, {} to the outermost frame, {} to the end of a handler's own stack, {} "
      "through "
      "signals, {} as libdwfl has them\n",
      name, counts.samples, counts.outermost, counts.other_stack, counts.signals, counts.equal);
  for (const auto& [what, times] : counts.differences) fmt::print("  {} times {}\n", times, what);
  const double most = 0.99 * static_cast<double>(counts.samples);
  EXPECT_GT(static_cast<double>(counts.outermost + counts.other_stack), most);
  EXPECT_GT(static_cast<double>(counts.equal), most);
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
