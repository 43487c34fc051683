// What a worker says, honest or not.
#include <gtest/gtest.h>

#include <random>

#include "base/limits.hpp"
#include "symbol/symboliser.hpp"

namespace vitrine::symbol {
namespace {

Resolved sample() {
  Resolved answer;
  answer.problem = "half of it is missing";
  answer.frames = {{{"inner", "_Z5innerv", "/src/a.c", 3, 1}, {"outer", "", "/src/a.c", 9, 7}},
                   {},
                   {{"outer", "", "/src/b.c", 0, 0}}};
  return answer;
}

TEST(Wire, RepliesComeBack) {
  const Resolved sent = sample();
  const auto got = decode_response(encode_response(sent), 3, {});
  ASSERT_TRUE(got);
  EXPECT_EQ(got->problem, sent.problem);
  EXPECT_EQ(got->frames, sent.frames);
}

TEST(Wire, QuestionsComeBack) {
  Request asked;
  asked.addresses = {1, 0xffff'ffff'ffff'ffff, 0x400000};
  asked.debug = {"/bin/x", 2};
  asked.with_dwarf = false;
  asked.number = 7;
  asked.open_memory = 12345;
  const auto got = pack::unpack<Request>(pack::pack(asked));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->addresses, asked.addresses);
  EXPECT_EQ(got->debug.path, "/bin/x");
  EXPECT_EQ(got->debug.roots, 2U);
  EXPECT_FALSE(got->with_dwarf);
  EXPECT_EQ(got->number, 7U);
  EXPECT_EQ(got->open_memory, 12345U);
}

TEST(Wire, OfAnotherNumberOfAddressesIsRefused) {
  const auto bytes = encode_response(sample());
  EXPECT_FALSE(decode_response(bytes, 2, {}));
  EXPECT_FALSE(decode_response(bytes, 4, {}));
}

TEST(Wire, CutAnywhereIsRefused) {
  const auto bytes = encode_response(sample());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode_response(std::span(bytes).first(size), 3, {})) << size;
}

TEST(Wire, BeyondTheLimitsIsRefused) {
  Limits narrow;
  narrow.inline_depth = 1;
  EXPECT_FALSE(decode_response(encode_response(sample()), 3, narrow));
  narrow = {};
  narrow.name_bytes = 5;
  EXPECT_FALSE(decode_response(encode_response(sample()), 3, narrow));
}

TEST(Wire, AnyByteMayBeWrong) {
  const auto bytes = encode_response(sample());
  std::mt19937 random(3);
  for (int round = 0; round < 20'000; ++round) {
    auto changed = bytes;
    for (std::size_t n = random() % 4 + 1; n > 0; --n)
      changed[random() % changed.size()] = static_cast<std::byte>(random());
    if (const auto got = decode_response(changed, 3, {})) {
      ASSERT_EQ(got->frames.size(), 3U);
    }
  }
}

// What has no room is left out, and said.
TEST(Wire, MoreThanAnAnswerHolds) {
  Resolved answer;
  Limits limits;
  for (int i = 0; i < 10'000; ++i) {
    std::string name(limits.name_bytes, 'x');
    name.replace(0, 8, std::to_string(10'000'000 + i));
    answer.frames.push_back({{name, "", "", 1, 1}});
  }
  const auto bytes = encode_response(answer);
  EXPECT_LE(bytes.size(), limits::symbol_response);
  const auto got = decode_response(bytes, 10'000, limits);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->frames.front(), answer.frames.front());
  EXPECT_TRUE(got->frames.back().empty());
  EXPECT_NE(got->problem, "");
}

}  // namespace
}  // namespace vitrine::symbol
