// Scopes, seen from where an observer looks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vitrine/labels.hpp>

#include "publish/context/publisher.hpp"
#include "publish/own_slot.hpp"

namespace vitrine {
namespace {

using labels::Key;
using labels::Scope;
using labels::Status;
using test::Labels;

const Key tenant{"tenant"}, route{"route"}, user{"user"};

TEST(Scope, PutsALabelInForceAndTakesItAway) {
  EXPECT_EQ(test::v1_slot, nullptr);
  {
    Scope scope{tenant, "acme"};
    ASSERT_TRUE(scope.ok());
    EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}}));
  }
  EXPECT_EQ(test::v1_slot, nullptr);
  EXPECT_EQ(test::record_slot, nullptr);
}

TEST(Scope, SeveralLabelsShareOneSet) {
  Scope scope{{tenant, "acme"}, {route, "/cart"}, {user, "7"}};
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}, {"route", "/cart"}, {"user", "7"}}));
}

/// So many scopes of one label, entered from here, lead to what is in force without a call.
int found_without_a_call() {
  using labels::detail::MemoKey;
  const auto& thread = labels::detail::vitrine_labels_thread;
  const auto* known = static_cast<const labels::detail::Recall*>(thread.arena);
  int found = 0;
  for (const auto* entry = known; entry != known + 64; ++entry) {
    if (entry->what <= MemoKey::several(labels::max_labels) ||
        entry->what >= labels::detail::Recall::writing)
      continue;
    const labels::detail::Words words = labels::detail::Links::of(entry->block).words;
    found += words[0] == thread.slot[0] && words[1] == thread.slot[1];
  }
  return found;
}

TEST(Scope, OneThatHidesAValueIsFoundAgain) {
  const Scope outer{tenant, "outer"};
  const void* first = nullptr;
  for (int i = 0; i < 3; ++i) {
    const Scope inner{tenant, "inner"};
    EXPECT_EQ(labels::get(tenant), "inner");
    EXPECT_EQ(found_without_a_call(), 1);
    if (i == 0) first = test::v1_slot;
    EXPECT_EQ(test::v1_slot, first);
  }
  const Scope other{route, "/"};
  const Scope inner{tenant, "inner"};  // on top of another set: another one
  EXPECT_NE(test::v1_slot, first);
  EXPECT_EQ(found_without_a_call(), 1);
  EXPECT_EQ(labels::get(route), "/");
}

TEST(Scope, InnerInheritsAndHides) {
  Scope outer{{tenant, "acme"}, {route, "/cart"}};
  const void* before = test::v1_slot;
  {
    Scope inner{{route, "/pay"}, {user, "7"}};
    EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}, {"route", "/pay"}, {"user", "7"}}));
    EXPECT_EQ(test::v1_slot->count, 3U) << "a hidden label must not be carried on";
  }
  EXPECT_EQ(test::v1_slot, before);
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}, {"route", "/cart"}}));
}

TEST(Scope, OfTwoLabelsWithOneKeyTheFirstCounts) {
  Scope scope{{tenant, "first"}, {tenant, "second"}};
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "first"}}));
  EXPECT_EQ(test::v1_slot->count, 1U);
}

TEST(Scope, ValuesAreAnyBytes) {
  const std::string nul("a\0b", 3), binary("\xff\xfe\x00\x80", 4);
  const Key odd{std::string_view("k\0\xff", 3)};
  Scope scope{{tenant, nul}, {route, binary}, {odd, ""}};
  EXPECT_EQ(test::v1_labels(),
            (Labels{{"tenant", nul}, {"route", binary}, {std::string("k\0\xff", 3), ""}}));
}

TEST(Scope, AnEmptyValueIsNotAnAbsentOne) {
  Scope scope{tenant, std::string_view()};
  ASSERT_EQ(test::v1_slot->count, 1U);
  const auto* label = reinterpret_cast<const abi::custom_labels::Label*>(test::v1_slot->storage);
  EXPECT_EQ(label->value.len, 0U);
  EXPECT_NE(label->value.buf, 0U);
}

TEST(Scope, EveryLengthUpToTheLimitIsCopiedWhole) {
  for (std::size_t length = 0; length < 700; ++length) {
    std::string value(length, 'x');
    for (std::size_t i = 0; i < length; ++i) value[i] = static_cast<char>('a' + i % 26);
    Scope scope{{tenant, value}, {route, "after"}};
    ASSERT_EQ(test::v1_labels(), (Labels{{"tenant", value}, {"route", "after"}})) << length;
  }
  const std::string largest(labels::max_value_bytes, 'z');
  Scope scope{{tenant, largest}, {route, largest}, {user, largest}};
  ASSERT_TRUE(scope.ok());
  EXPECT_EQ(test::v1_labels(),
            (Labels{{"tenant", largest}, {"route", largest}, {"user", largest}}));
}

TEST(Scope, RefusesWhatIsTooLargeAndChangesNothing) {
  Scope outer{tenant, "acme"};
  {
    Scope scope{{route, "/cart"}, {user, std::string(labels::max_value_bytes + 1, 'x')}};
    EXPECT_FALSE(scope.ok());
    EXPECT_EQ(scope.status(), Status::value_too_large);
    EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}}));
  }
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}}));

  const std::string big(labels::max_value_bytes, 'x');
  const Key a{"a"}, b{"b"}, c{"c"}, d{"d"};
  Scope too_much{{a, big}, {b, big}, {c, big}, {d, big}};
  EXPECT_EQ(too_much.status(), Status::set_too_large);
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}}));
}

TEST(Scope, RefusesABadKey) {
  const Key bad{std::string(labels::max_key_bytes + 1, 'k')};
  EXPECT_FALSE(bad.ok());
  Scope scope{{tenant, "acme"}, {bad, "x"}};
  EXPECT_EQ(scope.status(), Status::bad_key);
  EXPECT_EQ(test::v1_slot, nullptr);
}

TEST(Scope, RefusesABadKeyWhereNothingWasRemembered) {
  std::thread([] {
    const Key bad{std::string(labels::max_key_bytes + 1, 'k')};
    { Scope first{tenant, "acme"}; }
    Scope scope{bad, ""};
    EXPECT_EQ(scope.status(), Status::bad_key);
    EXPECT_EQ(test::v1_slot, nullptr);
  }).join();
}

TEST(Scope, HundredsOfLabels) {
  std::vector<labels::Label> many;
  Labels expected;
  std::vector<std::string> values;
  values.reserve(300);
  for (int i = 0; i < 300; ++i) {
    values.push_back("value " + std::to_string(i));
    const std::string key = "many." + std::to_string(i);
    many.emplace_back(Key{key}, values.back());
    expected[key] = values.back();
  }
  Scope scope{many.data(), many.size()};
  ASSERT_TRUE(scope.ok());
  EXPECT_EQ(test::v1_labels(), expected);
  Scope inner{tenant, "acme"};
  expected["tenant"] = "acme";
  EXPECT_EQ(test::v1_labels(), expected);
}

TEST(Scope, TheSetCarriesTheProofOfItsWholeness) {
  Scope outer{tenant, "acme"};
  Scope inner{{route, "/cart"}, {user, "seven"}};
  const auto* set = reinterpret_cast<const abi::custom_labels::SerialSet*>(test::v1_slot);
  EXPECT_EQ(set->trailer.magic, abi::custom_labels::serial_magic);
  EXPECT_NE(set->trailer.serial, 0U);
  EXPECT_EQ(set->trailer.self, reinterpret_cast<std::uint64_t>(set));
  // All of it lies inside the block that the trailer speaks for.
  const std::uint64_t begin = set->trailer.self, end = begin + set->trailer.total_bytes;
  EXPECT_LE(set->trailer.total_bytes, 1024U);
  const auto* label = reinterpret_cast<const abi::custom_labels::Label*>(set->set.storage);
  for (std::uint64_t i = 0; i < set->set.count; ++i) {
    for (const auto& string : {label[i].key, label[i].value}) {
      EXPECT_GE(string.buf, begin);
      EXPECT_LE(string.buf + string.len, end);
    }
  }
}

TEST(Scope, EnteringAgainTakesTheSameSetAgain) {
  { Scope first_use_of_this_thread{user, "7"}; }  // makes the arena, and remembers nothing
  const void* first = nullptr;
  for (int i = 0; i < 3; ++i) {
    Scope scope{tenant, "again"};
    if (i == 0) first = test::v1_slot;
    EXPECT_EQ(test::v1_slot, first);
    EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "again"}}));
  }
  Scope outer{route, "/"};
  Scope scope{tenant, "again"};
  EXPECT_NE(test::v1_slot, first) << "another parent, another set";
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "again"}, {"route", "/"}}));
}

TEST(Scope, EndingOutOfOrderLeavesNoLabelBehind) {
  auto storage = [] { return std::make_unique<std::aligned_storage_t<sizeof(Scope), 16>>(); };
  auto a = storage(), b = storage(), c = storage();
  Scope bottom{user, "7"};
  auto* first = ::new (static_cast<void*>(a.get())) Scope{tenant, "acme"};
  auto* second = ::new (static_cast<void*>(b.get())) Scope{route, "/cart"};
  auto* third = ::new (static_cast<void*>(c.get())) Scope{route, "/pay"};
  first->~Scope();
  EXPECT_EQ(test::v1_labels(), (Labels{{"user", "7"}, {"route", "/pay"}}));
  third->~Scope();
  EXPECT_EQ(test::v1_labels(), (Labels{{"user", "7"}, {"route", "/cart"}}));
  second->~Scope();
  EXPECT_EQ(test::v1_labels(), (Labels{{"user", "7"}}));
}

TEST(Scope, LooksUpWhatIsInForce) {
  EXPECT_EQ(labels::get(tenant), std::nullopt);
  Scope outer{tenant, "acme"};
  Scope inner{route, "/cart"};
  EXPECT_EQ(labels::get(tenant), "acme");
  EXPECT_EQ(labels::get(route), "/cart");
  EXPECT_EQ(labels::get(user), std::nullopt);
  Labels seen;
  labels::for_each([&](std::string_view key, std::string_view value) {
    seen.emplace(std::string(key), std::string(value));
  });
  EXPECT_EQ(seen, (Labels{{"tenant", "acme"}, {"route", "/cart"}}));
}

TEST(Keys, OneNameOneIdentity) {
  EXPECT_EQ(Key{"tenant"}, tenant);
  EXPECT_NE(route, tenant);
  EXPECT_EQ(tenant.name(), "tenant");
  EXPECT_EQ(sizeof(Key), sizeof(void*));
}

TEST(Keys, ManyThreadsInternTheSameNames) {
  std::vector<std::thread> threads;
  std::vector<std::vector<Key>> made(4);
  for (auto& mine : made) {
    threads.emplace_back([&mine] {
      for (int i = 0; i < 200; ++i) mine.emplace_back("race." + std::to_string(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : made) EXPECT_TRUE(mine == made[0]);
}

}  // namespace
}  // namespace vitrine
