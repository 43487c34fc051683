// The same interface on ABI v0, through libcustomlabels_v0.so.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vitrine/coroutine.hpp>
#include <vitrine/labels.hpp>

#include "publish/own_slot.hpp"

namespace vitrine {
namespace {

using labels::Key;
using labels::Scope;
using test::Labels;

const Key tenant{"tenant"}, route{"route"}, user{"user"};

TEST(V0, ScopesNestAndEnd) {
  EXPECT_EQ(test::v0_slot.storage, 0U);
  {
    Scope outer{tenant, "acme"};
    EXPECT_EQ(test::v0_labels(), (Labels{{"tenant", "acme"}}));
    Scope inner{{route, "/cart"}, {tenant, "umbrella"}};
    EXPECT_EQ(test::v0_labels(), (Labels{{"tenant", "umbrella"}, {"route", "/cart"}}));
    EXPECT_EQ(test::v0_slot.count, 2U);
    Scope long_one{user, std::string(300, 'u')};
    EXPECT_EQ(test::v0_labels().at("user"), std::string(300, 'u'));
    EXPECT_EQ(labels::get(route), "/cart");
  }
  EXPECT_EQ(test::v0_slot.storage, 0U);
  EXPECT_EQ(test::v0_slot.count, 0U);
}

TEST(V0, TheSlotIsOneAlignedWord) {
  EXPECT_EQ(labels::slot_address(), &test::v0_slot);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&test::v0_slot) % 16, 0U);
  EXPECT_EQ(labels::record_slot_address(), nullptr);
}

TEST(V0, TracesAreLabels) {
  Scope scope{labels::Trace{{{0xab}}, {{0xcd}}, 1}};
  EXPECT_EQ(test::v0_labels().at("trace_id"), "ab" + std::string(30, '0'));
  EXPECT_EQ(test::v0_labels().at("span_id"), "cd" + std::string(14, '0'));
}

TEST(V0, SetsTravel) {
  labels::Set set;
  {
    Scope scope{tenant, "acme"};
    set = labels::capture();
  }
  std::thread([set] {
    auto attached = labels::attach(set);
    EXPECT_EQ(test::v0_labels(), (Labels{{"tenant", "acme"}}));
    auto none = labels::attach({});
    EXPECT_EQ(test::v0_labels(), Labels{});
  }).join();
}

TEST(V0, HopsPutBothHalvesInForce) {
  const auto set = labels::Set::of({{tenant, "acme"}, {route, "/"}});
  labels::detail::Hopper hopper(set);
  Scope scope{user, "7"};
  hopper.enter();
  EXPECT_EQ(test::v0_labels(), (Labels{{"tenant", "acme"}, {"route", "/"}}));
  hopper.leave();
  EXPECT_EQ(test::v0_labels(), (Labels{{"user", "7"}}));
}

std::atomic<long> samples, mixed;

/// A set of one has the key "tenant" first; a set of three "route". Anything else is a storage with
/// another set's count.
void check_pair(int) {
  ++samples;
  const auto slot = test::v0_slot;
  if (slot.storage == 0) {
    if (slot.count != 0) ++mixed;
    return;
  }
  const auto* label = reinterpret_cast<const abi::custom_labels::Label*>(slot.storage);
  const bool one = label->key.len == 6;
  if (slot.count != (one ? 1U : 3U)) ++mixed;
}

TEST(V0, AnInterruptedThreadNeverShowsAMixedPair) {
  struct sigaction action {
  }, before{};
  action.sa_handler = check_pair;
  sigaction(SIGALRM, &action, &before);
  const itimerval often{{0, 100}, {0, 100}};
  setitimer(ITIMER_REAL, &often, nullptr);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (samples < 500 && std::chrono::steady_clock::now() < until) {
    for (int i = 0; i < 1000; ++i) {
      { Scope one{tenant, "acme"}; }
      { Scope three{{route, "/"}, {tenant, "acme"}, {user, "7"}}; }
    }
  }
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  EXPECT_GE(samples, 500);
  EXPECT_EQ(mixed, 0);
}

}  // namespace
}  // namespace vitrine
