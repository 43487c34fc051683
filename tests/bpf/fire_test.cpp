// Records of the trace, right and wrong, and the sets kept from them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "bpf/event.hpp"

namespace vitrine::bpf {
namespace {

using Bytes = std::vector<std::byte>;

template <class T>
void add(Bytes& to, const T& value) {
  const auto raw = std::as_bytes(std::span(&value, 1));
  to.insert(to.end(), raw.begin(), raw.end());
}

void add_text(Bytes& to, std::string_view text) {
  const auto raw = std::as_bytes(std::span(text));
  to.insert(to.end(), raw.begin(), raw.end());
  to.resize((to.size() + 7) / 8 * 8);
}

Bytes chunk(std::uint64_t address, std::string_view text) {
  Bytes out;
  const auto length = static_cast<std::uint32_t>(text.size());
  add(out, vitrine_chunk{address, length, length});
  add_text(out, text);
  return out;
}

/// A fire with a number, a string, one label set and a stack. Without `kept`, its set was sent
/// before.
Bytes record(std::uint64_t id, bool kept, std::uint32_t epoch = 1) {
  Bytes out;
  vitrine_fire head{};
  head.captures = 2;
  head.event.sets = 1;
  head.stack_bytes = 16;
  head.event.epoch = epoch;
  add(out, head);
  vitrine_captured number{};
  number.value = 42;
  add(out, number);
  vitrine_captured string{};
  string.bytes = 6;
  add(out, string);
  add_text(out, "kettle");
  const Bytes fresh = chunk(0x1000, "ids"), all = chunk(0x2000, "tenant acme");
  vitrine_fire_set set{};
  set.id = id;
  set.fresh_bytes = static_cast<std::uint32_t>(fresh.size());
  set.kept_bytes = kept ? static_cast<std::uint32_t>(all.size()) : 0;
  add(out, set);
  out.insert(out.end(), fresh.begin(), fresh.end());
  if (kept) out.insert(out.end(), all.begin(), all.end());
  add(out, std::uint64_t{0x401000});
  add(out, std::uint64_t{0x402000});
  return out;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(ParseFire, TakesARecordApart) {
  const Bytes bytes = record(7, true);
  Fire fire;
  ASSERT_TRUE(parse_fire(bytes, fire));
  ASSERT_EQ(fire.captures.size(), 2u);
  EXPECT_EQ(fire.captures[0].head.value, 42u);
  EXPECT_EQ(text_of(fire.captures[1].bytes), "kettle");
  ASSERT_EQ(fire.sets.size(), 1u);
  ASSERT_EQ(fire.sets[0].chunks.size(), 2u);
  EXPECT_EQ(fire.sets[0].chunks[0].address, 0x1000u);
  EXPECT_EQ(text_of(fire.sets[0].chunks[1].bytes), "tenant acme");
  EXPECT_THAT(fire.stack, testing::ElementsAre(0x401000, 0x402000));
  // The same object again: nothing of the last record stays.
  const Bytes second = record(7, false);
  ASSERT_TRUE(parse_fire(second, fire));
  EXPECT_EQ(fire.sets[0].chunks.size(), 1u);
  EXPECT_TRUE(fire.sets[0].kept.empty());
}

TEST(ParseFire, RefusesEveryRecordThatEndsTooEarly) {
  const Bytes bytes = record(7, true);
  Fire fire;
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const auto parsed = parse_fire(std::span(bytes).first(length), fire);
    ASSERT_FALSE(parsed) << length;
    EXPECT_EQ(parsed.error().code, ErrorCode::malformed);
  }
}

TEST(ParseFire, SurvivesAnyBytes) {
  std::mt19937 random(4);
  Fire fire;
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes = record(7, true);
    for (int change = 0; change < 4; ++change)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    if (!parse_fire(bytes, fire)) continue;
    EXPECT_LE(fire.captures.size(), std::size_t{VITRINE_CAPTURES});
    for (const Captured& captured : fire.captures) EXPECT_LE(captured.bytes.size(), bytes.size());
  }
}

TEST(KeptSets, GiveASetBackByItsId) {
  KeptSets kept(1 << 20);
  Fire fire;
  {
    const Bytes bytes = record(7, true);
    ASSERT_TRUE(parse_fire(bytes, fire));
    kept.complete(fire.head.event, fire.sets);
  }
  const Bytes again = record(7, false);
  ASSERT_TRUE(parse_fire(again, fire));
  kept.complete(fire.head.event, fire.sets);
  EXPECT_FALSE(fire.sets[0].forgotten);
  ASSERT_EQ(fire.sets[0].chunks.size(), 2u);
  EXPECT_EQ(fire.sets[0].chunks[1].address, 0x2000u);
  EXPECT_EQ(text_of(fire.sets[0].chunks[1].bytes), "tenant acme");

  const Bytes other = record(8, false);
  ASSERT_TRUE(parse_fire(other, fire));
  kept.complete(fire.head.event, fire.sets);
  EXPECT_TRUE(fire.sets[0].forgotten);
}

TEST(KeptSets, BeginANewEpochWhenThereAreTooMany) {
  KeptSets kept(2000);
  Fire fire;
  const auto pass = [&](std::uint64_t id, bool with_bytes, std::uint32_t epoch) {
    const Bytes bytes = record(id, with_bytes, epoch);
    EXPECT_TRUE(parse_fire(bytes, fire));
    kept.complete(fire.head.event, fire.sets);
    return !fire.sets[0].forgotten;
  };
  const std::uint32_t first = kept.epoch();
  std::uint64_t id = 1;
  while (kept.epoch() == first) {
    ASSERT_LT(id, 100u);
    EXPECT_TRUE(pass(id++, true, first));
  }
  EXPECT_TRUE(pass(1, false, first)) << "records of the epoch before may still come";
  EXPECT_FALSE(pass(1, false, first + 1)) << "but in the new one it has not been sent";
  while (kept.epoch() == first + 1) EXPECT_TRUE(pass(id++, true, first + 1));
  EXPECT_FALSE(pass(1, false, first)) << "two epochs are kept, not more";
}

}  // namespace
}  // namespace vitrine::bpf
