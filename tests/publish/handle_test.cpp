// Handles of the C interface under other threads that read them while they change, and under
// programs that assign to the slot.
#include <customlabels.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>
#include <vitrine/labels.hpp>

#include "publish/own_slot.hpp"

namespace vitrine {
namespace {

using labels::Key;
using labels::Scope;
using test::Labels;
using Set = custom_labels_labelset_t;

const Key pair_a{"a"}, pair_b{"b"}, tenant{"tenant"}, mine{"mine"};

custom_labels_string_t str(std::string_view text) {
  return {text.size(), reinterpret_cast<const unsigned char*>(text.data())};
}

Set* make(std::initializer_list<std::pair<const char*, const char*>> labels = {}) {
  Set* set = custom_labels_new(0);
  for (const auto& [key, value] : labels)
    EXPECT_EQ(custom_labels_set(set, str(key), str(value), nullptr), 0);
  return set;
}

void assign_to_slot(Set* set) {
  *static_cast<Set**>(const_cast<void*>(labels::slot_address())) = set;
}

// What sanitizers note of each byte is in memory, too, and so is what an emulator translated.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr long allowance = 16;
#elif VITRINE_EMULATED
constexpr long allowance = 64;
#else
constexpr long allowance = 1;
#endif

long resident_kib() {
  std::ifstream file("/proc/self/statm");
  long total = 0, resident = 0;
  file >> total >> resident;
  return resident * 4;
}

/// What the writer writes: one letter, again and again.
bool is_value(std::string_view text) {
  return !text.empty() && text[0] >= 'a' && text[0] <= 'z' &&
         text.find_first_not_of(text[0]) == std::string_view::npos;
}

bool is_pair(const std::optional<std::string_view>& a, const std::optional<std::string_view>& b) {
  return a.has_value() && b.has_value() && *a == *b && is_value(*a);
}

/// Each counts what it saw that was never there.
using Reader = bool (*)(Set*);

bool opens_a_scope(Set*) {
  const Scope scope{mine, "x"};
  const Labels labels = test::v1_labels();
  return scope.ok() && labels.count("mine") == 1 && is_pair(labels.at("a"), labels.at("b"));
}

bool clones(Set* set) {
  Set* copy = custom_labels_clone(set);
  const auto* v1 = reinterpret_cast<const abi::custom_labels::SetV1*>(copy);
  const Labels labels = test::labels_at(v1->storage, v1->count);
  const bool good = v1->count == custom_labels_count(copy) && labels.size() == v1->count &&
                    is_pair(labels.at("a"), labels.at("b"));
  custom_labels_free(copy);
  return good;
}

bool makes_a_string(Set* set) {
  custom_labels_string_t out{0, nullptr};
  if (custom_labels_debug_string(set, &out) != 0) return false;
  const std::string text(reinterpret_cast<const char*>(out.buf), out.len);
  std::free(const_cast<unsigned char*>(out.buf));
  const std::size_t a = text.find("a: "), b = text.find("b: ");
  if (a == std::string::npos || b == std::string::npos) return false;
  const auto value = [&](std::size_t at) {
    return std::string_view(text).substr(at + 3, text.find_first_of(",}", at) - at - 3);
  };
  return is_pair(value(a), value(b));
}

bool gets_values(Set* set) {
  const auto* label = custom_labels_get(set, str("a"));
  if (label == nullptr) return false;
  if (!is_value({reinterpret_cast<const char*>(label->value.buf), label->value.len})) return false;
  const std::optional<std::string_view> value = labels::get(pair_b);
  return value.has_value() && is_value(*value);
}

bool visits(Set*) {
  std::optional<std::string_view> a, b;
  labels::for_each([&](std::string_view key, std::string_view value) {
    if (key == "a") a = value;
    if (key == "b") b = value;
  });
  std::string_view text;
  bool good = true;
  labels::for_each([&](std::string_view key, std::string_view value) {
    if (key != "a" && key != "b") return;
    if (text.empty()) text = value;
    good = good && text == value && is_value(text);
  });
  return good && a.has_value() && b.has_value();
}

bool captures(Set*) {
  const labels::Set set = labels::capture();
  return is_pair(set.get(pair_a), set.get(pair_b));
}

/// Edits of all kinds, until told to stop. Both labels of the pair change together.
void edit_until(const std::atomic<bool>& stop, Set* set) {
  std::string value;
  for (unsigned i = 0; !stop; ++i) {
    value.assign(1 + i * 7 % 50, static_cast<char>('a' + i % 26));
    custom_labels_label_t pair[] = {{str("a"), str(value)}, {str("b"), str(value)}};
    const auto callback = [](void* data) -> void* {
      auto* inner = static_cast<Set*>(data);
      custom_labels_set(inner, str("other"), str("12345678"), nullptr);
      custom_labels_set(inner, str("other"), str("87654321"), nullptr);
      custom_labels_delete(inner, str("other"));
      return nullptr;
    };
    // Without the callback's edits the set goes back in one step, with them label by label.
    if (i % 2 == 0)
      custom_labels_run_with(
          set, pair, 2, [](void*) -> void* { return nullptr; }, nullptr, nullptr);
    else
      custom_labels_set(set, str("third"), str(value), nullptr);
    if (i % 16 == 0) callback(set);
  }
}

void read_while_changing(Reader reader) {
  Set* set = make({{"a", "zz"}, {"b", "zz"}});
  std::atomic<bool> stop{false};
  std::atomic<long> wrong{0}, done{0};
  std::thread writer([&] { edit_until(stop, set); });
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      custom_labels_replace(set);
      while (!stop) {
        if (!reader(set)) ++wrong;
        ++done;
      }
      custom_labels_replace(nullptr);
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  stop = true;
  writer.join();
  for (std::thread& thread : readers) thread.join();
  EXPECT_EQ(wrong, 0) << "of " << done;
  EXPECT_GT(done, 100);
  custom_labels_free(set);
}

TEST(HandleReaders, OpenScopesOnIt) {
  read_while_changing(opens_a_scope);
}
TEST(HandleReaders, CloneIt) {
  read_while_changing(clones);
}
TEST(HandleReaders, MakeDebugStrings) {
  read_while_changing(makes_a_string);
}
TEST(HandleReaders, GetValues) {
  read_while_changing(gets_values);
}
TEST(HandleReaders, VisitAllLabels) {
  read_while_changing(visits);
}
TEST(HandleReaders, CaptureIt) {
  read_while_changing(captures);
}

TEST(HandleWriters, TakeTurns) {
  Set* set = make();
  for (int round = 0; round < 50; ++round) {
    std::thread([&] {
      for (int i = 0; i < 100; ++i) {
        const std::string key = "k" + std::to_string(i % 10);
        ASSERT_EQ(custom_labels_set(set, str(key), str(std::to_string(round)), nullptr), 0);
      }
    }).join();
    ASSERT_EQ(custom_labels_count(set), 10U);
    ASSERT_EQ(custom_labels_set(set, str("k3"), str("main"), nullptr), 0);
  }
  custom_labels_free(set);
}

TEST(HandleCount, IsTheNumberOfLabels) {
  Set* set = make();
  const auto* v1 = reinterpret_cast<const abi::custom_labels::SetV1*>(set);
  const auto expect_labels = [&](std::uint64_t count) {
    ASSERT_EQ(v1->count, count);
    const auto* label = reinterpret_cast<const abi::custom_labels::Label*>(v1->storage);
    for (std::uint64_t i = 0; i < count; ++i) {
      ASSERT_NE(label[i].key.buf, 0U);
      ASSERT_NE(label[i].value.buf, 0U);
    }
  };
  for (std::uint64_t i = 0; i < 1200; ++i) {
    custom_labels_set(set, str(std::to_string(i)), str(i % 3 == 0 ? "" : "x"), nullptr);
    expect_labels(i + 1);
  }
  for (std::uint64_t i = 1200; i-- > 0;) {
    custom_labels_delete(set, str(std::to_string(i)));
    expect_labels(i);
  }
  custom_labels_free(set);
}

TEST(HandleMemory, IsUsedAgain) {
  // Made before: AddressSanitizer keeps what is freed.
  std::string values[8];
  for (std::size_t i = 0; i < 8; ++i) values[i].assign(i * 9, 'x');
  const auto churn = [&](int rounds) {
    for (int i = 0; i < rounds; ++i) {
      Set* set = make({{"tenant", "acme"}, {"route", "/"}});
      Scope scope{tenant, std::to_string(i)};
      for (const std::string& value : values)
        custom_labels_set(set, str("user"), str(value), nullptr);
      // Freed by another thread now and then.
      if (i % 500 == 0)
        std::thread([set] { custom_labels_free(set); }).join();
      else
        custom_labels_free(set);
    }
  };
  churn(2000);
  const long before = resident_kib();
  churn(20'000);
  EXPECT_LT(resident_kib() - before, 512 * allowance);
}

// What observers may still read of a version that was replaced (customlabels.h).
TEST(HandleMemory, OfAVersionIsLeftAloneForSixteenSets) {
  for (const std::size_t size : {2U, 40U, 400U}) {
    Set* set = make({{"tenant", "acme"}});
    const auto* v1 = reinterpret_cast<const abi::custom_labels::SetV1*>(set);
    for (int i = 0; i < 100; ++i)
      custom_labels_set(set, str("tenant"), str(std::string(size, 'y')), nullptr);
    for (int i = 0; i < 100; ++i) {
      const std::string value(size, static_cast<char>('a' + i % 20));
      custom_labels_set(set, str("tenant"), str(value), nullptr);
      const std::uint64_t storage = v1->storage;
      for (int j = 0; j < 16; ++j)
        custom_labels_set(set, str("tenant"), str(std::string(size, 'z')), nullptr);
      ASSERT_EQ(test::labels_at(storage, 1), (Labels{{"tenant", value}})) << i;
    }
    custom_labels_free(set);
  }
}

TEST(HandleMemory, IsAFewHundredBytesEachAmongScopes) {
  std::vector<Set*> held;
  held.reserve(10'000);
  make({{"tenant", "acme"}});
  const long before = resident_kib();
  for (int i = 0; i < 10'000; ++i) {
    for (int j = 0; j < 5; ++j) Scope scope{tenant, std::to_string(i * 5 + j)};
    held.push_back(make({{"tenant", "acme"}, {"route", "/cart"}, {"user", "7"}, {"zone", "eu"}}));
  }
  EXPECT_LT((resident_kib() - before) * 1024 / 10'000, 600 * allowance);
  for (Set* set : held) custom_labels_free(set);
}

TEST(AssignedToTheSlot, LeaksNothing) {
  const auto churn = [](int rounds) {
    for (int i = 0; i < rounds; ++i) {
      Set* first = make({{"tenant", "acme"}});
      Set* second = make({{"tenant", "other"}});
      custom_labels_replace(first);
      assign_to_slot(i % 2 == 0 ? nullptr : second);
      custom_labels_free(first);
      custom_labels_free(second);
      ASSERT_EQ(custom_labels_current(), nullptr);
    }
  };
  churn(1000);
  const long before = resident_kib();
  churn(50'000);
  EXPECT_LT(resident_kib() - before, 512 * allowance);
}

TEST(AssignedToTheSlot, LeaksNothingOfAnotherThread) {
  std::atomic<Set*> first{nullptr}, second{nullptr};
  std::atomic<bool> stop{false};
  std::thread user([&] {
    while (!stop) {
      if (second == nullptr) {
        std::this_thread::yield();
        continue;
      }
      custom_labels_replace(first);
      assign_to_slot(second);
      {
        const Scope scope{mine, "x"};
        EXPECT_EQ(labels::get(tenant), "other");
      }
      custom_labels_replace(nullptr);
      second = nullptr;
    }
  });
  const auto churn = [&](int rounds) {
    for (int i = 0; i < rounds; ++i) {
      Set* one = make({{"tenant", "acme"}});
      Set* other = make({{"tenant", "other"}});
      first = one;
      second = other;
      while (second != nullptr) std::this_thread::yield();
      custom_labels_free(one);
      custom_labels_free(other);
    }
  };
  churn(500);
  const long before = resident_kib();
  churn(5000);
  EXPECT_LT(resident_kib() - before, 512 * allowance);
  stop = true;
  user.join();
}

/// Uses up what can be used again.
void churn_handles() {
  for (int i = 0; i < 20'000; ++i) custom_labels_free(make({{"tenant", "wrong"}}));
}

TEST(AssignedToTheSlot, IsKeptFromTheNextCallOn) {
  Set* set = make({{"tenant", "acme"}});
  std::atomic<int> step{0};
  std::thread user([&] {
    assign_to_slot(set);
    EXPECT_EQ(custom_labels_count(set), 1U);
    step = 1;
    while (step != 2) std::this_thread::yield();
    EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}}));
    const Scope scope{mine, "x"};
    EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}, {"mine", "x"}}));
  });
  while (step != 1) std::this_thread::yield();
  custom_labels_free(set);
  churn_handles();
  step = 2;
  user.join();
}

TEST(AssignedToTheSlot, AndFreedElsewhereBeforeThatDoesNotCrash) {
  Set* set = make({{"tenant", "acme"}});
  std::atomic<int> step{0};
  std::thread user([&] {
    assign_to_slot(set);
    step = 1;
    while (step != 2) std::this_thread::yield();
    {
      const Scope scope{mine, "x"};
      EXPECT_EQ(labels::get(mine), "x");
    }
    custom_labels_string_t out{0, nullptr};
    EXPECT_EQ(custom_labels_debug_string(custom_labels_current(), &out), 0);
    std::free(const_cast<unsigned char*>(out.buf));
    custom_labels_free(custom_labels_clone(custom_labels_current()));
    custom_labels_replace(nullptr);
  });
  while (step != 1) std::this_thread::yield();
  custom_labels_free(set);
  churn_handles();
  step = 2;
  user.join();
}

#if VITRINE_TEST_OTEL
TEST(AssignedToTheSlot, TheRecordOfAnOlderScopeGoes) {
  Set* set = make({{"tenant", "acme"}});
  const Scope scope{mine, "x"};
  Set* before = custom_labels_current();
  ASSERT_NE(test::record_slot, nullptr);
  const auto* record = test::record_slot;
  for (Set* assigned : {set, static_cast<Set*>(nullptr)}) {
    assign_to_slot(assigned);
    EXPECT_EQ(custom_labels_count(nullptr), 0U);  // any call
    EXPECT_EQ(test::record_slot, nullptr);
    {
      const Scope inner{tenant, "inner"};
      EXPECT_NE(test::record_slot, nullptr);
    }
    EXPECT_EQ(test::record_slot, nullptr);
    EXPECT_EQ(custom_labels_current(), assigned);
    // Back to the scope's set, as it was found: its record comes back with it.
    assign_to_slot(before);
    EXPECT_EQ(custom_labels_count(nullptr), 0U);
    EXPECT_EQ(test::record_slot, record);
  }
  custom_labels_free(set);
}
#endif

TEST(BelowAScope, AHandleStaysWhenItIsFreed) {
  Set* set = make({{"tenant", "acme"}});
  custom_labels_replace(set);
  {
    const Scope scope{mine, "x"};
    custom_labels_free(set);
    churn_handles();
  }
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}}));
  custom_labels_replace(nullptr);
}

}  // namespace
}  // namespace vitrine
