// What a worker says, honest or not.
#include "symbol/wire.hpp"

#include <gtest/gtest.h>

#include <random>

#include "base/limits.hpp"

namespace vitrine::symbol {
namespace {

Reply sample() {
  Reply reply;
  reply.memory = 12'345;
  reply.answer.problem = "half of it is missing";
  reply.answer.frames = {
      {{"inner", "_Z5innerv", "/src/a.c", 3, 1}, {"outer", "", "/src/a.c", 9, 7}},
      {},
      {{"outer", "", "/src/b.c", 0, 0}}};
  return reply;
}

TEST(Wire, RepliesComeBack) {
  const Reply sent = sample();
  const auto got = decode_reply(encode_reply(sent), 3, {});
  ASSERT_TRUE(got);
  EXPECT_EQ(got->memory, sent.memory);
  EXPECT_EQ(got->answer.problem, sent.answer.problem);
  EXPECT_EQ(got->answer.frames, sent.answer.frames);
}

TEST(Wire, QuestionsComeBack) {
  const std::vector<Address> asked{1, 0xffff'ffff'ffff'ffff, 0x400000};
  EXPECT_EQ(decode_question(encode_question(asked)).value(), asked);
  EXPECT_FALSE(decode_question(std::vector<std::byte>(7)));
  EXPECT_FALSE(decode_question(std::vector<std::byte>(8 * (limits::symbol_batch + 1))));
}

TEST(Wire, OfAnotherNumberOfAddressesIsRefused) {
  const auto bytes = encode_reply(sample());
  EXPECT_FALSE(decode_reply(bytes, 2, {}));
  EXPECT_FALSE(decode_reply(bytes, 4, {}));
}

TEST(Wire, CutAnywhereIsRefused) {
  const auto bytes = encode_reply(sample());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode_reply(std::span(bytes).first(size), 3, {})) << size;
}

TEST(Wire, BeyondTheLimitsIsRefused) {
  Limits narrow;
  narrow.inline_depth = 1;
  EXPECT_FALSE(decode_reply(encode_reply(sample()), 3, narrow));
  narrow = {};
  narrow.name_bytes = 5;
  EXPECT_FALSE(decode_reply(encode_reply(sample()), 3, narrow));
}

TEST(Wire, AnyByteMayBeWrong) {
  const auto bytes = encode_reply(sample());
  std::mt19937 random(3);
  for (int round = 0; round < 20'000; ++round) {
    auto changed = bytes;
    for (std::size_t n = random() % 4 + 1; n > 0; --n)
      changed[random() % changed.size()] = static_cast<std::byte>(random());
    if (const auto got = decode_reply(changed, 3, {})) {
      ASSERT_EQ(got->answer.frames.size(), 3U);
    }
  }
}

// What has no room is left out, and said.
TEST(Wire, MoreThanAnAnswerHolds) {
  Reply reply;
  Limits limits;
  for (int i = 0; i < 10'000; ++i) {
    std::string name(limits.name_bytes, 'x');
    name.replace(0, 8, std::to_string(10'000'000 + i));
    reply.answer.frames.push_back({{name, "", "", 1, 1}});
  }
  const auto bytes = encode_reply(reply);
  EXPECT_LE(bytes.size(), limits::symbol_answer);
  const auto got = decode_reply(bytes, 10'000, limits);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->answer.frames.front(), reply.answer.frames.front());
  EXPECT_TRUE(got->answer.frames.back().empty());
  EXPECT_NE(got->answer.problem, "");
}

}  // namespace
}  // namespace vitrine::symbol
