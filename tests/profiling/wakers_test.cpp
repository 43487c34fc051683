// What ended each wait, against a program that knows it.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>

#include "profiling/profiled.hpp"
#include "support/child.hpp"

namespace vitrine {
namespace {

using profile::Profile;
using profile::Sample;
using test::label_of;

constexpr int rounds = 200;

struct Planted {
  std::string waker, waking, waiting;  ///< the waker's tenant, and a function of either
};

const std::map<std::string, Planted> planted{
    {"word", {"acme", "wake_by_word", "wait_for_word"}},
    {"pipe", {"globex", "wake_by_pipe", "wait_for_byte"}},
    {"socket", {"initech", "wake_by_socket", "wait_for_byte"}},
    {"process", {"umbrella", "wake_from_process", "wait_for_byte"}}};

std::ptrdiff_t place_of(const std::vector<std::string>& functions, const std::string& function) {
  const auto at = std::ranges::find_if(
      functions, [&](const std::string& name) { return test::bare_name(name) == function; });
  return at == functions.end() ? -1 : at - functions.begin();
}

struct Waits {
  std::uint64_t all = 0, with_labels = 0, with_stacks = 0, by_interrupt = 0, wrong = 0;
};

void count(const Profile& profile, const Sample& sample, Waits& waits) {
  const std::string kind = label_of(profile, sample, "kind");
  const std::string tenant = label_of(profile, sample, "waker.tenant");
  const std::string process = label_of(profile, sample, "waker.process");
  const auto functions = test::functions_of(profile, sample);
  const auto separator = place_of(functions, "--");
  waits.all += sample.count;
  if (process == "[interrupt]") {
    waits.by_interrupt += sample.count;
    EXPECT_EQ(functions.front(), "[interrupt]");
    EXPECT_EQ(tenant, "");
    return;
  }
  const auto known = planted.find(kind);
  if (known == planted.end() || separator < 0) return;
  const Planted& its = known->second;
  if (tenant == its.waker) waits.with_labels += sample.count;
  if (!tenant.empty() && tenant != its.waker) waits.wrong += sample.count;
  const auto waking = place_of(functions, its.waking), waiting = place_of(functions, its.waiting);
  if (waking >= 0 && waking < separator && waiting > separator) waits.with_stacks += sample.count;
  for (const auto& [other, not_its] : planted)
    if (other != kind && place_of(functions, not_its.waking) >= 0) waits.wrong += sample.count;
  const bool is_other = process == "other", is_own = process == "waking_load";
  if (is_other || is_own) {
    EXPECT_EQ(is_other, kind == "process");
  }
}

/// `choose`: sets what differs from other profiles.
std::map<std::string, Waits> waits_of(
    const std::function<void(observe::ProfilingOptions&)>& choose = {}) {
  test::Child load = test::Child::spawn({WAKING_LOAD, std::to_string(rounds)});
  EXPECT_EQ(load.read_line(), "ready");
  observe::ProfilingOptions options = test::options_of_waits(load.pid());
  options.wakers = true;
  if (choose) choose(options);
  const auto profiled = test::profile_load(options, load);
  std::map<std::string, Waits> out;
  for (const Sample& sample : profiled.profile.samples) {
    // Its threads alone: not those of the process that wakes one of them.
    EXPECT_EQ(profiled.profile.processes[sample.process].pid,
              static_cast<std::uint32_t>(load.pid()));
    if (label_of(profiled.profile, sample, "tenant") == "waits")
      count(profiled.profile, sample, out[label_of(profiled.profile, sample, "kind")]);
  }
  EXPECT_EQ(profiled.profile.losses.events, 0u);
  return out;
}

void expect_planted(std::map<std::string, Waits> waits) {
  for (const auto& [kind, its] : planted) {
    const Waits& found = waits[kind];
    fmt::print("{}: {} waits, {} with the waker's labels, {} with its stack, {} interrupts\n", kind,
               found.all, found.with_labels, found.with_stacks, found.by_interrupt);
    EXPECT_EQ(found.wrong, 0u) << kind;
    // Beside other programs a thread may find what it waits for before it has to wait.
    EXPECT_GT(found.all, rounds / 4) << kind;
    // What is known of another process comes with its first sample.
    EXPECT_GE(found.with_labels, found.all * 8 / 10) << kind;
    EXPECT_GE(found.with_stacks, found.all * 9 / 10) << kind;
    EXPECT_LE(found.by_interrupt, found.all / 20) << kind;
  }
  const Waits& timer = waits["timer"];
  EXPECT_GT(timer.all, rounds / 2);
  // The kernel does not report every wake-up by a timer.
  EXPECT_GE(timer.by_interrupt, timer.all * 9 / 10);
}

TEST(Wakers, AreWhoEndedTheWait) {
  expect_planted(waits_of());
}

TEST(Wakers, AreFoundByCopiesOfTheirStacks) {
  expect_planted(waits_of([](auto& options) { options.unwind = observe::Unwind::copy; }));
}

TEST(Wakers, ThatAFilterAsksFor) {
  auto filter = profile::Filter::parse("waker.tenant=globex");
  ASSERT_TRUE(filter);
  const auto only = std::make_shared<const profile::Filter>(std::move(*filter));
  const auto waits = waits_of([&](auto& options) { options.only = only; });
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits.begin()->first, "pipe");
  EXPECT_GT(waits.begin()->second.all, rounds / 4);
}

}  // namespace
}  // namespace vitrine
