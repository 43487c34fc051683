// Threads and sets that are not as most are, in every mode.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "observe/labels/snapshot_reader.hpp"
#include "observe/observe_subject.hpp"

namespace vitrine::observe {
namespace {

using namespace std::chrono_literals;

class Unusual : public testing::TestWithParam<Mode> {};

INSTANTIATE_TEST_SUITE_P(Modes, Unusual, testing::Values(Mode::snapshot, Mode::ebpf, Mode::ptrace),
                         [](const auto& row) { return std::string(name(row.param)); });

/// A worker of io_uring runs no user code, and has the thread pointer of the thread that made the ring.
TEST_P(Unusual, AWorkerOfTheKernelHasNoLabels) {
  const test::Child target = test::start_subject("uring");
  if (test::threads_of(target.pid()).size() < 2) GTEST_SKIP() << "io_uring is not permitted here";
  auto reader = test::open_reader(target.pid(), GetParam());
  ASSERT_TRUE(reader);
  const auto snapshot = reader->read(500ms);
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  for (const ThreadLabels& thread : snapshot->threads)
    EXPECT_EQ(thread.tid, target.pid()) << thread.comm;
  if (GetParam() != Mode::ebpf) {
    EXPECT_EQ(snapshot->threads.size(), 1U);
  }
}

TEST(UnusualByProc, AWorkerOfTheKernelIsNotListed) {
  const test::Child target = test::start_subject("uring");
  if (test::threads_of(target.pid()).size() < 2) GTEST_SKIP() << "io_uring is not permitted here";
  const auto process = target::Process::open(target.pid());
  ASSERT_TRUE(process);
  const auto threads = proc_thread_source(*process)->list();
  ASSERT_TRUE(threads) << threads.error().message;
  ASSERT_EQ(threads->size(), 1U);
  EXPECT_EQ(threads->front().id.tid, target.pid());
}

TEST(UnusualWhileSampling, NoThreadThatRanIsReported) {
  const test::Child target = test::start_subject("edit");
  auto reader = test::open_reader(target.pid(), Mode::ebpf);
  ASSERT_TRUE(reader);
  const auto snapshot = reader->read(20ms);
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  EXPECT_TRUE(snapshot->threads.empty());
  EXPECT_THAT(snapshot->notes, testing::Contains(testing::HasSubstr("snapshot mode reads all")));
}

/// It runs its last instructions, and its publisher did nothing wrong.
TEST_P(Unusual, AThreadWithoutItsMemoryIsNotListed) {
  const test::Child target = test::start_subject("unmapped");
  ASSERT_EQ(test::threads_of(target.pid()).size(), 2U);
  auto reader = test::open_reader(target.pid(), GetParam());
  ASSERT_TRUE(reader);
  std::string others;
  for (int attempt = 0; attempt < 50; ++attempt) {  // until it has unmapped it
    const auto snapshot = reader->read(20ms);
    ASSERT_TRUE(snapshot) << snapshot.error().message;
    others.clear();
    for (const ThreadLabels& thread : snapshot->threads)
      if (thread.tid != target.pid())
        others += thread.set ? "with labels; " : thread.set.error().message + "; ";
    if (others.empty()) return;
    std::this_thread::sleep_for(10ms);
  }
  ADD_FAILURE() << others;
}

/// The first entry of a key counts, and has none.
TEST_P(Unusual, ANullValueHidesLaterOnesOfItsKey) {
  const test::Child target = test::start_subject("null");
  auto reader = test::open_reader(target.pid(), GetParam());
  ASSERT_TRUE(reader);
  const auto is_trusted = [&](const ThreadLabels& thread) {
    return thread.tid != target.pid() && thread.evidence != Evidence::unproven;
  };
  // A page may be out when a sample is taken, and a thread may not run for a while.
  for (int attempt = 0; attempt < 100; ++attempt) {
    const auto snapshot = reader->read(100ms);
    ASSERT_TRUE(snapshot) << snapshot.error().message;
    const auto found = std::ranges::find_if(snapshot->threads, is_trusted);
    if (found == snapshot->threads.end()) continue;
    ASSERT_TRUE(found->set) << found->set.error().message;
    EXPECT_THAT(found->set->labels, testing::ElementsAre(format::Label{"route", "/pay"}));
    ASSERT_EQ(found->set->defects.size(), 1U);
    EXPECT_EQ(found->set->defects.front().rule, format::SetRule::value_present);
    return;
  }
  ADD_FAILURE() << "no reading was proven";
}

}  // namespace
}  // namespace vitrine::observe
