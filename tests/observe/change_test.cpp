// Targets that change under the reader: threads that come and go, exec, exit.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "observe/observe_subject.hpp"

namespace vitrine::observe {
namespace {

using namespace std::chrono_literals;
using test::ask;
using test::start_subject;

class Change : public testing::TestWithParam<Mode> {};

TEST_P(Change, ThreadsThatComeAndGoAreNeverMixedUp) {
  test::Child target = start_subject("churn");
  auto reader = test::open_reader(target.pid(), GetParam());
  ASSERT_TRUE(reader);
  const long before = ask(target).at(0);
  const auto begin = std::chrono::steady_clock::now();
  std::size_t labelled = 0, errors = 0;
  while (std::chrono::steady_clock::now() - begin < 3s) {
    auto snapshot = reader->read(20ms);
    ASSERT_TRUE(snapshot) << snapshot.error().message;
    for (const ThreadLabels& thread : snapshot->threads) {
      if (!thread.set) {
        ++errors;
        continue;
      }
      if (thread.evidence == Evidence::unproven || thread.set->labels.empty()) continue;
      EXPECT_EQ(test::value_of(thread, "tid"), std::to_string(thread.tid)) << name(thread.evidence);
      ++labelled;
    }
  }
  fmt::print("{}: {} threads a second, {} label sets, {} errors\n", name(GetParam()),
             (ask(target).at(0) - before) / 3, labelled, errors);
  EXPECT_GT(labelled, 0u);
  test::expect_unharmed(target.pid());
}

/// A thread that starts gets the memory of one that has ended, and with it the place of its labels. A serial proves that
/// a set is whole, and not whose it is.
TEST_P(Change, WhatIsInTheMemoryOfAnEndedThreadIsNotItsOwn) {
  test::Child target = test::Child::spawn({OBSERVE_PUBLISHER, "churn"}, {});
  ASSERT_EQ(target.read_line(), "ready");
  auto reader = test::open_reader(target.pid(), GetParam());
  ASSERT_TRUE(reader);
  const auto begin = std::chrono::steady_clock::now();
  std::size_t labelled = 0;
  std::map<Evidence, std::size_t> wrong;
  while (std::chrono::steady_clock::now() - begin < 2s) {
    auto snapshot = reader->read(20ms);
    ASSERT_TRUE(snapshot) << snapshot.error().message;
    for (const ThreadLabels& thread : snapshot->threads) {
      if (!thread.set || thread.set->labels.empty()) continue;
      ++labelled;
      if (test::value_of(thread, "tid") != std::to_string(thread.tid)) ++wrong[thread.evidence];
    }
  }
  for (const auto& [evidence, count] : wrong)
    ADD_FAILURE() << count << " of " << labelled << " label sets are another thread's, as "
                  << name(evidence);
  EXPECT_GT(labelled, 0u);
}

/// The labels of the main thread, once it has any.
std::optional<format::LabelSet> main_labels(LabelReader& reader, pid_t pid) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    auto snapshot = reader.read(20ms);
    if (!snapshot) {
      EXPECT_NE(snapshot.error().code, ErrorCode::not_found) << snapshot.error().message;
      continue;
    }
    for (const ThreadLabels& thread : snapshot->threads)
      if (thread.tid == pid && thread.set && !thread.set->labels.empty()) return *thread.set;
  }
  return std::nullopt;
}

TEST_P(Change, ExecIsFollowed) {
  if (GetParam() == Mode::ebpf) {
    // Its one thread sleeps, so there is nothing to sample: reading must go on without an error.
    test::Child target = start_subject("exec");
    auto reader = test::open_reader(target.pid(), GetParam());
    ASSERT_TRUE(reader);
    target.write("\n");
    ASSERT_EQ(target.read_line(), "ready");
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(reader->read(20ms));
    return;
  }
  test::Child target = start_subject("exec");
  auto reader = test::open_reader(target.pid(), GetParam());
  ASSERT_TRUE(reader);
  auto first = main_labels(*reader, target.pid());
  ASSERT_TRUE(first);
  EXPECT_THAT(first->labels,
              testing::ElementsAre(format::Label{"tid", std::to_string(target.pid())}));
  target.write("\n");
  ASSERT_EQ(target.read_line(), "ready");
  auto second = main_labels(*reader, target.pid());
  ASSERT_TRUE(second);
  EXPECT_THAT(second->labels, testing::ElementsAre(format::Label{"generation", "2"}));
}

TEST_P(Change, EndInTheMidstOfReadingIsNotFound) {
  for (int round = 0; round < 20; ++round) {
    test::Child target = start_subject(round % 2 == 0 ? "work" : "churn");
    auto reader = test::open_reader(target.pid(), GetParam());
    ASSERT_TRUE(reader);
    std::thread killer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5 + round));
      target.signal(SIGKILL);
    });
    std::optional<Error> end;
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (!end && std::chrono::steady_clock::now() < deadline)
      if (auto snapshot = reader->read(5ms); !snapshot) end = snapshot.error();
    killer.join();
    ASSERT_TRUE(end) << "reading goes on after the end";
    EXPECT_EQ(end->code, ErrorCode::not_found) << end->message;
  }
}

TEST_P(Change, AnotherProcessWithItsNumberIsNotRead) {
  test::Child target = start_subject("work");
  const pid_t pid = target.pid();
  auto reader = test::open_reader(pid, GetParam());
  ASSERT_TRUE(reader);
  ASSERT_TRUE(reader->read(20ms));
  target.signal(SIGKILL);
  ASSERT_TRUE(target.wait());
  test::ChildOptions options;
  options.pid = pid;
  const test::Child other = start_subject("work", options);
  ASSERT_EQ(other.pid(), pid);
  for (int attempt = 0; attempt < 3; ++attempt) {
    const auto snapshot = reader->read(20ms);
    ASSERT_FALSE(snapshot) << snapshot->threads.size() << " threads of another process";
    EXPECT_EQ(snapshot.error().code, ErrorCode::not_found) << snapshot.error().message;
  }
}

/// What is seen within some time, in the middle of which the subject is sent a line.
Snapshot seen_around(LabelReader& reader, test::Child& target, const std::string& line) {
  std::jthread sender([&] {
    std::this_thread::sleep_for(1s);
    target.write(line + "\n");
    EXPECT_TRUE(target.read_line());
  });
  auto seen = reader.read(3s);
  EXPECT_TRUE(seen) << seen.error().message;
  return seen ? *seen : Snapshot{};
}

std::vector<std::string> values_of(const Snapshot& snapshot, const std::string& key) {
  std::vector<std::string> values;
  for (const ThreadLabels& thread : snapshot.threads)
    if (auto value = test::value_of(thread, key); !value.empty()) values.push_back(value);
  return values;
}

// What is sampled is what threads show while they run: it is true of that time, whatever the process does later.
TEST(ChangeWhileSampling, ALibraryThatIsLoadedTakesNothingAway) {
  test::Child target = start_subject("spin");
  auto reader = test::open_reader(target.pid(), Mode::ebpf);
  ASSERT_TRUE(reader);
  const Snapshot seen = seen_around(*reader, target, "libresolv.so.2");
  std::vector<std::string> threads;
  for (const auto& [tid, status] : test::threads_of(target.pid()))
    threads.push_back(std::to_string(tid));
  EXPECT_THAT(values_of(seen, "tid"), testing::UnorderedElementsAreArray(threads));
  EXPECT_THAT(seen.notes, testing::IsEmpty());
}

TEST(ChangeWhileSampling, ThreadsOfBothProgramsAreSeen) {
  test::Child target = start_subject("spin");
  const auto before = test::threads_of(target.pid());
  ASSERT_EQ(before.size(), 2U);
  auto reader = test::open_reader(target.pid(), Mode::ebpf);
  ASSERT_TRUE(reader);
  const Snapshot seen = seen_around(*reader, target, "exec");
  EXPECT_THAT(values_of(seen, "generation"), testing::ElementsAre("2"));
  // The first thread goes on in the other program.
  std::vector<std::string> others{std::to_string(before.rbegin()->first)};
  for (const auto& [tid, status] : test::threads_of(target.pid()))
    if (tid != target.pid()) others.push_back(std::to_string(tid));
  EXPECT_THAT(values_of(seen, "tid"), testing::UnorderedElementsAreArray(others));
  EXPECT_THAT(seen.notes, testing::Contains(testing::HasSubstr("executed another program")));
}

INSTANTIATE_TEST_SUITE_P(Modes, Change, testing::Values(Mode::snapshot, Mode::ebpf, Mode::ptrace),
                         [](const auto& row) { return std::string(name(row.param)); });

}  // namespace
}  // namespace vitrine::observe
