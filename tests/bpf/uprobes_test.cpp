// Attaching to other processes, and leaving them as they were.
#include "bpf/uprobes.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <random>
#include <sstream>
#include <thread>
#include <utility>

#include "bpf/tracer.hpp"
#include "support/child.hpp"

namespace vitrine::bpf {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::SizeIs;

constexpr const char* at_rest = "90 90 0";

/// A process that fires when told to.
struct Target {
  test::Child child;
  std::uint64_t site = 0, other = 0, semaphore = 0;

  explicit Target(const std::string& program = FIRING) : child(test::Child::spawn({program})) {
    for (const std::string& line : child.read_until("ready")) {
      std::istringstream words(line);
      std::string name;
      std::uint64_t offset = 0;
      words >> name >> offset;
      (name == "site" ? site : name == "other" ? other : semaphore) = offset;
    }
  }
  std::string ask(const std::string& command) {
    child.write(command + "\n");
    return child.read_line().value_or("(no answer)");
  }
  /// "first byte of site, of other, semaphore", once it is `wanted`, or else what it stays.
  std::string state(const std::string& wanted) {
    std::string now;
    const auto end = std::chrono::steady_clock::now() + 20s;
    do {
      now = ask("state");
      if (now == wanted) break;
      std::this_thread::sleep_for(5ms);
    } while (std::chrono::steady_clock::now() < end);
    return now;
  }
  [[nodiscard]] AttachSite first() const { return place(site, 0); }
  [[nodiscard]] AttachSite second() const { return place(other, 1); }

 private:
  [[nodiscard]] AttachSite place(std::uint64_t offset, std::uint32_t number) const {
    AttachSite out;
    out.file_offset = offset;
    out.semaphore_offset = semaphore;
    out.site = number;
    return out;
  }
};

class Uprobes : public testing::TestWithParam<Attaching> {
 protected:
  std::unique_ptr<Tracer> open(const std::atomic<bool>* stop = nullptr) {
    TracerOptions options;
    options.stop = stop;
    options.attaching = GetParam();
    options.labels = false;
    auto tracer = Tracer::open(options);
    EXPECT_TRUE(tracer) << tracer.error().message;
    vitrine_site_program program{};
    EXPECT_TRUE((*tracer)->set_program(0, program));
    return std::move(*tracer);
  }
  void TearDown() override { ::close(file); }

  static std::size_t count(Tracer& tracer, std::size_t wanted) {
    std::size_t seen = 0;
    for (int empty = 0; seen < wanted && empty < 3;) {
      const auto polled = tracer.poll(500ms, [](const Fire&) {});
      if (polled.value_or(0) == 0) ++empty;
      seen += polled.value_or(0);
    }
    return seen;
  }

  int file = ::open(FIRING, O_RDONLY | O_CLOEXEC);
};
INSTANTIATE_TEST_SUITE_P(Ways, Uprobes,
                         testing::Values(Attaching::uprobe_multi, Attaching::perf_event),
                         [](const auto& row) {
                           return std::string(row.param == Attaching::perf_event ? "perf_event"
                                                                                 : "uprobe_multi");
                         });

TEST_P(Uprobes, RaiseTheSemaphoreAndLeaveEverythingAsItWas) {
  Target target;
  const AttachSite sites[] = {target.first(), target.second()};
  auto tracer = open();
  auto attached = tracer->attach(file, sites, target.child.pid());
  ASSERT_TRUE(attached) << attached.error().message;
  EXPECT_THAT(attached->failures, SizeIs(0));
  EXPECT_EQ(target.state("cc cc 2"), "cc cc 2") << "one for each site";
  target.ask("fire 100");
  target.ask("other 50");
  EXPECT_EQ(count(*tracer, 150), 150u);
  attached->detach();
  EXPECT_EQ(target.state(at_rest), at_rest);
}

TEST_P(Uprobes, ReachProcessesThatStartLater) {
  Target before;
  const AttachSite site = before.first();
  auto tracer = open();
  auto attached = tracer->attach(file, std::span(&site, 1));
  ASSERT_TRUE(attached) << attached.error().message;
  Target later;
  EXPECT_EQ(later.state("cc 90 1"), "cc 90 1");
  before.ask("fire 10");
  later.ask("fire 10");
  later.ask("fork 5");
  EXPECT_EQ(count(*tracer, 25), 25u);
  attached->detach();
  EXPECT_EQ(before.state(at_rest), at_rest);
  EXPECT_EQ(later.state(at_rest), at_rest);
}

TEST_P(Uprobes, LeaveForkedChildrenUnharmed) {
  Target target;
  const AttachSite sites[] = {target.first(), target.second()};
  auto tracer = open();
  auto attached = tracer->attach(file, sites, target.child.pid());
  ASSERT_TRUE(attached) << attached.error().message;
  target.ask("fire 10");
  target.ask("other 10");
  EXPECT_EQ(target.ask("fork 100"), "child 0");
  EXPECT_EQ(count(*tracer, 21), 20u) << "this process alone";
}

TEST_P(Uprobes, TellThatAProcessIsGone) {
  pid_t gone = 0;
  AttachSite site;
  {
    Target target;
    gone = target.child.pid();
    site = target.first();
  }
  auto attached = open()->attach(file, std::span(&site, 1), gone);
  ASSERT_FALSE(attached);
  EXPECT_EQ(attached.error().code, ErrorCode::not_found) << attached.error().message;
}

TEST_P(Uprobes, AttachToAllButTheSiteThatIsInTheWay) {
  Target target;
  auto tracer = open(), second = open();
  AttachSite without = target.first();
  without.semaphore_offset = 0;  // as a tracer does that does not know of it
  auto in_the_way = tracer->attach(file, std::span(&without, 1));
  ASSERT_TRUE(in_the_way);
  const AttachSite sites[] = {target.second(), target.first()};
  auto attached = second->attach(file, sites);
  ASSERT_TRUE(attached) << attached.error().message;
  ASSERT_THAT(attached->failures, SizeIs(1));
  EXPECT_EQ(attached->failures[0].site, 1u);
  EXPECT_THAT(attached->failures[0].error.message, HasSubstr("another tracer"));
  target.ask("other 10");
  target.ask("fire 10");
  EXPECT_EQ(count(*second, 11), 10u);
  EXPECT_EQ(count(*tracer, 11), 10u);
}

TEST_P(Uprobes, TellWhatIsWrongWithAPlace) {
  auto tracer = open();
  Target target;
  AttachSite odd = target.first();
  odd.semaphore_offset |= 1;
  AttachSite beyond = target.first();
  beyond.file_offset = 1ULL << 40;
  const AttachSite sites[] = {odd, beyond};
  auto attached = tracer->attach(file, sites);
  ASSERT_TRUE(attached) << attached.error().message;
  ASSERT_THAT(attached->failures, SizeIs(2));
  EXPECT_THAT(attached->failures[0].error.message, HasSubstr("odd offset"));
  const int directory = ::open("/", O_RDONLY | O_DIRECTORY);
  const AttachSite good = target.first();
  const auto to_directory = tracer->attach(directory, std::span(&good, 1));
  EXPECT_TRUE(!to_directory || !to_directory->failures.empty());
  ::close(directory);
}

/// The program under another name: a file of its own.
struct CopiedFile {
  explicit CopiedFile(int number)
      : path(testing::TempDir() + "firing-" + std::to_string(::getpid()) + "-" +
             std::to_string(number)) {
    std::filesystem::copy_file(FIRING, path, std::filesystem::copy_options::overwrite_existing);
    file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  }
  CopiedFile(CopiedFile&& other) noexcept
      : path(std::exchange(other.path, {})), file(std::exchange(other.file, -1)) {}
  ~CopiedFile() {
    if (path.empty()) return;
    ::close(file);
    std::filesystem::remove(path);
  }

  std::string path;
  int file = -1;
};

TEST_P(Uprobes, AttachToManyFilesInOneGo) {
  const Target target;
  AttachSite odd = target.first();
  odd.semaphore_offset |= 1;
  const AttachSite good[] = {target.first(), target.second()};
  const AttachSite mixed[] = {odd, target.second(), odd};
  constexpr std::size_t count = 20;
  std::vector<CopiedFile> copies;
  std::vector<FileSites> files;
  for (std::size_t i = 0; i < count; ++i) {
    copies.emplace_back(static_cast<int>(i));
    files.push_back(
        {copies[i].file, "a copy",
         i % 2 == 0 ? std::span<const AttachSite>(good) : std::span<const AttachSite>(mixed)});
  }
  auto tracer = open();
  auto attached = tracer->attach(files);
  ASSERT_TRUE(attached) << attached.error().message;
  std::vector<std::pair<std::size_t, std::size_t>> refused, expected;
  for (const AttachFailure& failure : attached->failures) {
    refused.emplace_back(failure.file, failure.site);
    EXPECT_THAT(failure.error.message, HasSubstr("odd offset"));
  }
  for (std::size_t i = 1; i < count; i += 2) {
    expected.emplace_back(i, 0);
    expected.emplace_back(i, 2);
  }
  EXPECT_THAT(refused, testing::UnorderedElementsAreArray(expected));
  if (GetParam() == Attaching::uprobe_multi) {
    EXPECT_THAT(attached->links, SizeIs(count)) << "those that were not refused share one";
  }

  Target traced(copies[1].path);
  EXPECT_EQ(traced.state("90 cc 1"), "90 cc 1");
  traced.ask("other 10");
  EXPECT_EQ(this->count(*tracer, 11), 10u) << "once each";
  attached->detach();
  EXPECT_EQ(traced.state(at_rest), at_rest);
}

TEST_P(Uprobes, AreNotAttachedOnceItIsInterrupted) {
  const Target target;
  const AttachSite site = target.first();
  const std::atomic<bool> stop = true;
  auto attached = open(&stop)->attach(file, std::span(&site, 1));
  ASSERT_FALSE(attached);
  EXPECT_EQ(attached.error().code, ErrorCode::interrupted) << attached.error().message;
}

std::vector<std::string> tracing(const Target& target, bool alone, int fires) {
  return {TRACING,
          FIRING,
          std::to_string(target.site),
          std::to_string(target.semaphore),
          alone ? std::to_string(target.child.pid()) : "0",
          std::to_string(fires)};
}

TEST(UprobesEnd, WithTheirTracerHoweverItIsKilled) {
  Target target;
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    auto tracer = test::Child::spawn(tracing(target, round % 2 == 0, 0));
    // From before it attaches to long after.
    if (round % 3 != 0) {
      ASSERT_EQ(tracer.read_line(), "attached");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
    target.ask("fire 3");
    tracer.signal(SIGKILL);
    ASSERT_EQ(tracer.wait(), 128 + SIGKILL);
    ASSERT_EQ(target.state(at_rest), at_rest) << "round " << round;
  }
}

TEST(UprobesEnd, SurviveTheEndOfTheTarget) {
  auto target = std::make_unique<Target>();
  auto tracer = test::Child::spawn(tracing(*target, false, 12));
  ASSERT_EQ(tracer.read_line(), "attached");
  target->ask("fire 5");
  target->child.signal(SIGKILL);
  target->child.wait();
  Target next;
  next.ask("fire 7");
  EXPECT_EQ(tracer.read_line(), "saw 12 lost 0");
  EXPECT_EQ(tracer.wait(), 0);
  EXPECT_EQ(next.state(at_rest), at_rest);
}

test::Outcome as_nobody(const std::string& capabilities, std::vector<std::string> command) {
  std::vector<std::string> argv{"setpriv",
                                "--reuid=65534",
                                "--regid=65534",
                                "--clear-groups",
                                "--inh-caps=" + capabilities,
                                "--ambient-caps=" + capabilities,
                                "--"};
  argv.insert(argv.end(), command.begin(), command.end());
  return test::run(std::move(argv));
}

TEST(UprobesPermission, TwoCapabilitiesSuffice) {
  Target target;
  std::jthread firing([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) target.ask("fire 10");
  });
  const auto outcome = as_nobody("+bpf,+perfmon", tracing(target, true, 50));
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("saw 50 lost 0"));
}

TEST(UprobesPermission, WithoutThemItIsSaidWhatIsMissing) {
  Target target;
  const auto outcome = as_nobody("-all", tracing(target, true, 50));
  EXPECT_EQ(outcome.status, 3) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("CAP_BPF and CAP_PERFMON"));
}

TEST(UprobesKernel, WhosePidFilterIsOfThreads) {
  EXPECT_FALSE(pid_filter_is_of_threads("6.5.0-14-generic"));
  EXPECT_TRUE(pid_filter_is_of_threads("6.6.13"));
  EXPECT_TRUE(pid_filter_is_of_threads("6.9.0-rc1"));
  EXPECT_FALSE(pid_filter_is_of_threads("6.10.0"));
  EXPECT_FALSE(pid_filter_is_of_threads("7.6.0"));
  EXPECT_FALSE(pid_filter_is_of_threads("nonsense"));
}

}  // namespace
}  // namespace vitrine::bpf
