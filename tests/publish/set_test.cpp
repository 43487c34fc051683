// Sets that are captured, prepared, and carried to other threads.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <future>
#include <thread>
#include <vitrine/labels.hpp>

#include "publish/own_slot.hpp"

namespace vitrine {
namespace {

using labels::Key;
using labels::Scope;
using labels::Set;
using test::Labels;

const Key tenant{"tenant"}, route{"route"};

TEST(Set, ACaptureOutlivesItsScope) {
  Set set;
  {
    Scope scope{{tenant, "acme"}, {route, "/cart"}};
    set = labels::capture();
  }
  EXPECT_EQ(test::v1_slot, nullptr);
  // Enough scopes to have used every page of the arena again.
  for (int i = 0; i < 20'000; ++i) Scope scope{tenant, std::to_string(i)};
  {
    auto attached = labels::attach(set);
    EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}, {"route", "/cart"}}));
    EXPECT_EQ(test::record_slot != nullptr, labels::record_slot_address() != nullptr);
  }
  EXPECT_EQ(test::v1_slot, nullptr);
  EXPECT_EQ(set.get(tenant), "acme");
  EXPECT_EQ(set.size(), 2U);
}

TEST(Set, GoesToAnotherThread) {
  std::thread thread;
  {
    Scope scope{tenant, "acme"};
    thread = std::thread([set = labels::capture()] {
      EXPECT_EQ(test::v1_labels(), Labels{});
      auto attached = labels::attach(set);
      EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}}));
      Scope more{route, "/cart"};
      EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}, {"route", "/cart"}}));
    });
  }
  thread.join();
}

TEST(Set, OutlivesTheThreadThatMadeIt) {
  Set set;
  std::thread([&] {
    Scope scope{tenant, "acme"};
    set = labels::capture();
  }).join();
  auto attached = labels::attach(set);
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}}));
}

TEST(Set, ReplacesWhatIsInForce) {
  const Set prepared = Set::of({{route, "/health"}});
  Scope scope{tenant, "acme"};
  {
    auto attached = labels::attach(prepared);
    ASSERT_TRUE(attached.ok());
    EXPECT_EQ(test::v1_labels(), (Labels{{"route", "/health"}}));
    auto none = labels::attach(Set{});
    EXPECT_EQ(test::v1_labels(), Labels{});
    EXPECT_TRUE(Set{}.empty());
  }
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}}));
}

TEST(Set, SaysWhyItCouldNotBeMade) {
  const std::string too_long(labels::max_value_bytes + 1, 'x');
  const Set set = Set::of({{tenant, too_long}});
  EXPECT_FALSE(set.ok());
  EXPECT_EQ(set.status(), labels::Status::value_too_large);
}

TEST(Set, BindCarriesLabelsWithACallable) {
  std::function<Labels(int)> task;
  {
    Scope scope{tenant, "acme"};
    task = labels::bind([](int n) {
      Labels seen = test::v1_labels();
      seen["n"] = std::to_string(n);
      return seen;
    });
  }
  auto result = std::async(std::launch::async, task, 7);
  EXPECT_EQ(result.get(), (Labels{{"tenant", "acme"}, {"n", "7"}}));
  EXPECT_EQ(task(8), (Labels{{"tenant", "acme"}, {"n", "8"}}));
  EXPECT_EQ(test::v1_slot, nullptr);
}

TEST(Set, BindTakesCallablesThatOnlyMove) {
  auto bound = labels::bind(Set::of({{tenant, "acme"}}), [p = std::make_unique<int>(5)] {
    return *p + (int)labels::get(tenant)->size();
  });
  EXPECT_EQ(bound(), 9);
}

TEST(Set, AnAttachmentThatEndsEarlyLeavesNothingBehind) {
  Scope bottom{route, "/"};
  auto attached = std::make_unique<std::aligned_storage_t<sizeof(labels::Attach), 16>>();
  auto* early =
      ::new (static_cast<void*>(attached.get())) labels::Attach{Set::of({{tenant, "acme"}})};
  {
    Scope scope{route, "/cart"};
    early->~Attach();
    EXPECT_EQ(test::v1_labels(), (Labels{{"route", "/cart"}}));
  }
  EXPECT_EQ(test::v1_labels(), (Labels{{"route", "/"}}));
}

long resident_bytes() {
  std::ifstream file("/proc/self/statm");
  long total = 0, resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

/// One set in fifty is kept: it keeps its own memory, and not that of those around it.
TEST(Set, KeepsAtMostTwiceItsOwnBytes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr long allowance = 16;  // what sanitizers note of each byte is in memory, too
#else
  constexpr long allowance = 1;
#endif
  constexpr int captures = 20'000;
  const Key user{"user"}, zone{"zone"};
  std::vector<Set> kept;
  kept.reserve(captures);
  const auto serve = [&](int request, bool keeps) {
    const std::string name = "user-" + std::to_string(request);
    Scope scope{{tenant, "acme"}, {user, name}, {route, "/api/v1/cart"}, {zone, "eu-west-1"}};
    ASSERT_TRUE(scope.ok());
    const Set captured = labels::capture();  // as every request has one for its callbacks
    ASSERT_TRUE(captured.ok());
    if (keeps) kept.push_back(captured);
  };
  for (int i = 0; i < 2000; ++i) serve(i, false);
  const long before = resident_bytes();
  for (int i = 0; i < 50 * captures; ++i) serve(i, i % 50 == 0);
  const long each = (resident_bytes() - before) / captures;
  // What observers copy for it; a set of ours has that in front of its labels.
  const auto own = [](const Set& set) {
    const auto* bytes = reinterpret_cast<const char*>(set.words()[1]);
    std::uint32_t total = 0;
    std::memcpy(&total, bytes + offsetof(abi::custom_labels::SerialSet, trailer.total_bytes),
                sizeof total);
    return static_cast<long>(total);
  };
  EXPECT_LE(each, 2 * own(kept.front()) * allowance) << "one is " << own(kept.front()) << " bytes";
  EXPECT_EQ(kept.back().get(user), "user-" + std::to_string(50 * (captures - 1)));
}

TEST(Set, HandlesMoveBetweenManyThreads) {
  std::vector<std::thread> threads;
  Scope scope{tenant, "shared"};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([set = labels::capture(), t] {
      for (int i = 0; i < 2000; ++i) {
        auto attached = labels::attach(set);
        Scope inner{route, std::to_string(t * 10'000 + i)};
        const Set captured = labels::capture();
        const Set copy = captured;
        ASSERT_EQ(copy.get(tenant), "shared");
        ASSERT_EQ(labels::get(route), std::to_string(t * 10'000 + i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace vitrine
