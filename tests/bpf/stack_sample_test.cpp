// Records of the profiler, right and wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "bpf/event.hpp"
#include "bpf/wire/profile.h"

namespace vitrine::bpf {
namespace {

using Bytes = std::vector<std::byte>;

template <class T>
void add(Bytes& to, const T& value) {
  const auto raw = std::as_bytes(std::span(&value, 1));
  to.insert(to.end(), raw.begin(), raw.end());
}

/// With one label set of one chunk, two kernel addresses, three registers, a frame, 11 bytes of stack,
/// and 8 of the stack that was left.
Bytes record() {
  Bytes out;
  vitrine_stack_sample head{};
  head.event.kind = VITRINE_SAMPLE_OFF_CPU;
  head.event.sets = 1;
  head.off_ns = 5;
  head.stack_start = 0x7ff0;
  head.kernel_bytes = 16;
  head.register_bytes = 24;
  head.frame_bytes = 8;
  head.unwound = VITRINE_UNWOUND_WHOLE;
  head.stack_bytes = 11;
  head.left_start = 0xc000;
  head.left_bytes = 8;
  add(out, head);
  vitrine_fire_set set{};
  set.id = 9;
  set.kept_bytes = sizeof(vitrine_chunk) + 8;
  add(out, set);
  add(out, vitrine_chunk{0x1000, 8, 8});
  for (const std::uint64_t word : {7, 101, 102, 1, 2, 3, 0x44, 0x55, 0x66, 0x77}) add(out, word);
  return out;
}

TEST(ParseStackSample, TakesARecordApart) {
  const Bytes bytes = record();
  StackSample sample;
  for (int again = 0; again < 2; ++again) {  // nothing of the last record stays
    ASSERT_TRUE(parse_stack_sample(bytes, sample));
    EXPECT_EQ(sample.head.off_ns, 5u);
    ASSERT_EQ(sample.sets.size(), 1u);
    EXPECT_EQ(sample.sets[0].chunks.at(0).address, 0x1000u);
    EXPECT_THAT(sample.kernel_stack, testing::ElementsAre(101, 102));
    EXPECT_THAT(sample.registers, testing::ElementsAre(1, 2, 3));
    EXPECT_EQ(sample.stack_start, 0x7ff0u);
    EXPECT_EQ(sample.frames, (std::vector<std::uint64_t>{0x44}));
    ASSERT_EQ(sample.stack.size(), 11u);
    EXPECT_EQ(sample.stack[8], std::byte{0x66});
    EXPECT_EQ(sample.left_start, 0xc000u);
    ASSERT_EQ(sample.left_stack.size(), 8u);
    EXPECT_EQ(sample.left_stack[0], std::byte{0x77});
  }
}

/// What woke its thread is behind it, from the next word on.
Bytes woken_record() {
  Bytes out = record();
  out.resize((out.size() + 7) / 8 * 8);
  vitrine_stack_sample head{};
  head.event.kind = VITRINE_SAMPLE_WAKER;
  head.event.tid = 77;
  head.kernel_bytes = 8;
  add(out, head);
  add(out, std::uint64_t{103});
  return out;
}

TEST(ParseStackSample, TakesItsWakerApart) {
  const Bytes woken = woken_record(), alone = record();
  StackSample sample;
  ASSERT_TRUE(parse_stack_sample(woken, sample));
  EXPECT_THAT(sample.kernel_stack, testing::ElementsAre(101, 102));
  ASSERT_NE(sample.waker, nullptr);
  EXPECT_EQ(sample.waker->head.event.tid, 77);
  EXPECT_THAT(sample.waker->kernel_stack, testing::ElementsAre(103));
  EXPECT_TRUE(sample.waker->registers.empty());
  ASSERT_TRUE(parse_stack_sample(alone, sample));
  EXPECT_EQ(sample.waker, nullptr);
}

TEST(ParseStackSample, RefusesWakersThatEndTooEarlyOrAreNone) {
  const Bytes woken = woken_record();
  const std::size_t alone = (record().size() + 7) / 8 * 8;
  StackSample sample;
  for (std::size_t length = alone + 1; length < woken.size(); ++length)
    EXPECT_FALSE(parse_stack_sample(std::span(woken).first(length), sample)) << length;
  Bytes two = record();
  two.resize(alone);
  const Bytes other = record();
  two.insert(two.end(), other.begin(), other.end());
  EXPECT_FALSE(parse_stack_sample(two, sample));
}

TEST(ParseStackSample, RefusesEveryRecordThatEndsTooEarly) {
  const Bytes bytes = record();
  StackSample sample;
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const auto parsed = parse_stack_sample(std::span(bytes).first(length), sample);
    ASSERT_FALSE(parsed) << length;
    EXPECT_EQ(parsed.error().code, ErrorCode::malformed);
  }
}

TEST(ParseStackSample, RefusesMoreSetsThanThereCanBe) {
  vitrine_stack_sample head{};
  head.event.sets = ~0U;
  Bytes bytes;
  add(bytes, head);
  StackSample sample;
  EXPECT_FALSE(parse_stack_sample(bytes, sample));
}

TEST(ParseStackSample, SurvivesAnyBytes) {
  std::mt19937 random(5);
  StackSample sample;
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes = record();
    for (int change = 0; change < 4; ++change)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    if (!parse_stack_sample(bytes, sample)) continue;
    EXPECT_LE(sample.stack.size() + sample.left_stack.size() + 8 * sample.registers.size() +
                  8 * sample.kernel_stack.size(),
              bytes.size());
  }
}

TEST(GivenProcess, DoesNotFitWhileItIsWritten) {
  vitrine_given_process none{};
  EXPECT_NE(none.check, vitrine_check_of_given(&none));
  std::mt19937_64 random(7);
  for (int round = 0; round < 1000; ++round) {
    vitrine_given_process two[2]{};
    for (vitrine_given_process& one : two) {
      one = {0, random(), random(), static_cast<__u32>(random() % 4),
             static_cast<__u32>(random() % 2)};
      one.check = vitrine_check_of_given(&one);
    }
    for (unsigned mixed = 1; mixed < 31; ++mixed) {
      const auto from = [&](unsigned field) -> const vitrine_given_process& {
        return two[mixed >> field & 1];
      };
      const vitrine_given_process read{from(0).check, from(1).given_ns, from(2).image, from(3).tgid,
                                       from(4).is_bystander};
      const bool is_one = std::memcmp(&read, &two[0], sizeof read) == 0 ||
                          std::memcmp(&read, &two[1], sizeof read) == 0;
      EXPECT_EQ(read.check == vitrine_check_of_given(&read), is_one);
    }
  }
}

}  // namespace
}  // namespace vitrine::bpf
