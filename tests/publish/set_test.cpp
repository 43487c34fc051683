// Sets that are captured, prepared, and carried to other threads.
#include <gtest/gtest.h>

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
