// What a thread shows when scopes, attachments and coroutines end in any order (docs/essays/ownership.md):
// never a label whose holder is gone.
#include <customlabels.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <coroutine>
#include <cstring>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <vitrine/coroutine.hpp>
#include <vitrine/labels.hpp>

#include "publish/own_slot.hpp"

namespace vitrine {
namespace {

using labels::Attach;
using labels::Key;
using labels::Scope;
using labels::Set;
using test::Labels;

const Key tenant{"tenant"}, route{"route"}, user{"user"}, noise{"noise"};

/// So many sets that memory which nobody holds is used again.
void churn() {
  for (int i = 0; i < 5000; ++i) Scope scope{noise, "something else " + std::to_string(i)};
}

/// Fire and forget: ends without suspending.
struct Detached {
  struct promise_type : labels::CoroutineLabels {
    Detached get_return_object() { return {}; }
    auto initial_suspend() noexcept { return starting(std::suspend_never{}); }
    auto final_suspend() noexcept { return hop(std::suspend_never{}); }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

/// A generator, whose exceptions come out of next().
struct Generator {
  struct promise_type : labels::CoroutineLabels {
    int value = 0;
    Generator get_return_object() {
      return Generator{std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    auto initial_suspend() noexcept { return starting(std::suspend_always{}); }
    auto final_suspend() noexcept { return hop(std::suspend_always{}); }
    auto yield_value(int given) noexcept {
      value = given;
      return hop(std::suspend_always{});
    }
    void return_void() {}
    void unhandled_exception() { throw; }
  };
  explicit Generator(std::coroutine_handle<promise_type> made) : coroutine(made) {}
  Generator(Generator&& other) noexcept : coroutine(std::exchange(other.coroutine, nullptr)) {}
  ~Generator() {
    if (coroutine) coroutine.destroy();
  }
  bool next() {
    coroutine.resume();
    return !coroutine.done();
  }
  std::coroutine_handle<promise_type> coroutine;
};

/// Suspends, and keeps the coroutine for whoever resumes it.
struct Parked {
  std::coroutine_handle<>& where;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> coroutine) const noexcept { where = coroutine; }
  void await_resume() const noexcept {}
};

Detached labelled_work(std::coroutine_handle<>& where) {
  Scope scope{tenant, "of the coroutine"};
  co_await Parked{where};
  EXPECT_EQ(labels::get(tenant), "of the coroutine");
}

TEST(Ownership, ACoroutineThatEndsWithoutSuspendingLeavesNothing) {
  std::coroutine_handle<> parked;
  {
    Scope starter{route, "/start"};
    labelled_work(parked);
    EXPECT_EQ(test::v1_labels(), (Labels{{"route", "/start"}}));
  }
  {
    Scope loop{user, "loop"};
    parked.resume();
    EXPECT_EQ(test::v1_labels(), (Labels{{"user", "loop"}}));
    churn();
    EXPECT_EQ(test::v1_labels(), (Labels{{"user", "loop"}}));
  }
  EXPECT_EQ(test::v1_slot, nullptr);
}

Generator numbers(int until) {
  Scope scope{tenant, "of the generator"};
  for (int i = 0; i < until; ++i) {
    EXPECT_EQ(labels::get(tenant), "of the generator");
    co_yield i;
  }
  throw std::runtime_error("no more numbers");
}

TEST(Ownership, AnExceptionOutOfACoroutineLeavesTheResumersLabels) {
  Scope scope{tenant, "of the caller"};
  std::optional<Generator> generator;
  {
    Scope starter{route, "/start"};
    generator.emplace(numbers(2));
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(generator->next());
    EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "of the caller"}}));
  }
  EXPECT_THROW(generator->next(), std::runtime_error);
#if !defined(__clang__) || __clang_major__ >= 16
  EXPECT_EQ(labels::get(route), std::nullopt);
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "of the caller"}}));
#endif
  churn();
  EXPECT_EQ(labels::get(tenant), "of the caller");
  generator.reset();
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "of the caller"}}));
}

TEST(Ownership, ACoroutineThatAnExceptionLeftMayBeDestroyedElsewhere) {
  Scope scope{tenant, "of the caller"};
  auto generator = std::make_unique<Generator>(numbers(0));
  EXPECT_THROW(generator->next(), std::runtime_error);
  std::thread([moved = std::move(generator)]() mutable { moved.reset(); }).join();
  churn();
  EXPECT_EQ(labels::get(tenant), "of the caller");
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "of the caller"}}));
}

#if !defined(__clang__) || __clang_major__ >= 16
/// Leaves by an exception, after it opened the scopes that its caller opens next.
Generator same_scopes() {
  { Scope one{user, "same"}; }
  { Scope two{{user, "same"}, {noise, "same"}}; }
  throw std::runtime_error("left");
  co_yield 0;
}

// The sets of these scopes are known for the set that the coroutine leaves in the slot.
TEST(Ownership, AScopeAfterAnExceptionIsOnTopOfTheResumersLabels) {
  Scope scope{tenant, "of the caller"};
  const auto after_exception = [&](auto&& use) {
    std::optional<Generator> generator;
    {
      Scope starter{route, "/start"};
      generator.emplace(same_scopes());
    }
    EXPECT_THROW(generator->next(), std::runtime_error);
    ASSERT_EQ(test::v1_labels(), (Labels{{"tenant", "of the caller"}, {"route", "/start"}}));
    use();
    EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "of the caller"}}));
  };
  after_exception([] {
    Scope one{user, "same"};
    EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "of the caller"}, {"user", "same"}}));
  });
  after_exception([] {
    Scope two{{user, "same"}, {noise, "same"}};
    EXPECT_EQ(test::v1_labels(),
              (Labels{{"tenant", "of the caller"}, {"user", "same"}, {"noise", "same"}}));
  });
  after_exception([] {
    const Attach attached(Set::of({{user, "same"}}));
    EXPECT_EQ(test::v1_labels(), (Labels{{"user", "same"}}));
  });
}
#endif

TEST(Ownership, ALabelledGeneratorWithinALabelledTask) {
  std::coroutine_handle<> parked;
  const auto task = [](std::coroutine_handle<>& where) -> Detached {
    Scope scope{tenant, "of the task"};
    Generator generator = numbers(3);
    for (int i = 0; i < 2; ++i) {
      generator.next();
      EXPECT_EQ(labels::get(tenant), "of the task");
      co_await Parked{where};
      EXPECT_EQ(labels::get(tenant), "of the task");
    }
    try {
      generator.next();
      generator.next();
      ADD_FAILURE() << "no exception";
    } catch (const std::runtime_error&) {
    }
    co_await Parked{where};
    EXPECT_EQ(labels::get(tenant), "of the task");
  };
  task(parked);
  for (int i = 0; i < 3; ++i) {
    Scope resumer{user, "resumer"};
    EXPECT_EQ(test::v1_labels(), (Labels{{"user", "resumer"}}));
    parked.resume();
    EXPECT_EQ(test::v1_labels(), (Labels{{"user", "resumer"}}));
  }
  EXPECT_EQ(test::v1_slot, nullptr);
}

/// A generator whose yield_value is no hop.
struct Plain {
  struct promise_type : labels::CoroutineLabels {
    Plain get_return_object() {
      return Plain{std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    auto initial_suspend() noexcept { return starting(std::suspend_always{}); }
    auto final_suspend() noexcept { return hop(std::suspend_always{}); }
    auto yield_value(int) noexcept { return std::suspend_always{}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<promise_type> coroutine;
};
Plain plain_numbers() {
  while (true) co_yield 1;
}

TEST(Ownership, ASuspensionThatIsNoHopEndsWithTheCoroutineAroundIt) {
  std::coroutine_handle<> parked;
  const auto task = [](std::coroutine_handle<>& where) -> Detached {
    std::optional<Plain> generator;
    {
      Scope scope{tenant, "of the generator"};
      generator = plain_numbers();
    }
    generator->coroutine.resume();
    co_await Parked{where};
    EXPECT_EQ(test::v1_labels(), (Labels{}));
    generator->coroutine.destroy();
    EXPECT_EQ(test::v1_labels(), (Labels{}));
  };
  Scope scope{user, "caller"};
  {
    const Attach nothing{Set{}};
    task(parked);
  }
  EXPECT_EQ(test::v1_labels(), (Labels{{"user", "caller"}}));
  parked.resume();
  EXPECT_EQ(test::v1_labels(), (Labels{{"user", "caller"}}));
}

Plain yields_and_hops() {
  co_yield 1;
  co_await std::suspend_always{};
  co_await std::suspend_never{};
  co_await std::suspend_always{};
}

TEST(Ownership, ACoroutineThatSuspendedWithoutAHopMayContinueElsewhere) {
  Scope scope{user, "caller"};
  Plain generator;
  {
    Scope its{tenant, "of the generator"};
    generator = yields_and_hops();
  }
  generator.coroutine.resume();
  // This thread's until it ends: the other thread shows what it showed.
  std::thread([&] {
    Scope other{tenant, "other"};
    for (int i = 0; i < 2; ++i) {
      generator.coroutine.resume();
      EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "other"}}));
      Scope inner{user, "inner"};
      { Attach attached(labels::capture()); }
      EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "other"}, {"user", "inner"}}));
    }
  }).join();
  {
    Attach attached(Set::of({{route, "attached"}}));
    std::optional<Scope> first(std::in_place, route, "first");
    Scope second{noise, "second"};
    first.reset();
    EXPECT_EQ(test::v1_labels(), (Labels{{"noise", "second"}, {"route", "attached"}}));
  }
  std::thread([&] { generator.coroutine.destroy(); }).join();
  EXPECT_EQ(labels::get(user), "caller");
  EXPECT_EQ(test::v1_labels(), (Labels{{"user", "caller"}}));
}

TEST(Ownership, AScopeThatEndsOutOfOrderOnAHandleLeavesTheHandle) {
  custom_labels_labelset_t* set = custom_labels_new(0);
  const auto text = [](const char* from) {
    return custom_labels_string_t{std::strlen(from), reinterpret_cast<const unsigned char*>(from)};
  };
  custom_labels_set(set, text("tenant"), text("of the handle"), nullptr);
  custom_labels_replace(set);
  std::optional<Scope> first, second;
  first.emplace(route, "/first");
  second.emplace(user, "second");
  first.reset();
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "of the handle"}, {"user", "second"}}));
  second.reset();
  EXPECT_EQ(custom_labels_current(), set);
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "of the handle"}}));
  custom_labels_replace(nullptr);
  custom_labels_free(set);
}

TEST(Ownership, ACoroutineDestroyedWhileSuspendedTakesNothingOfItsDestroyer) {
  std::coroutine_handle<> parked;
  labelled_work(parked);
  Scope same{tenant, "of the coroutine"};  // the same set, on top of the same: nothing
  parked.destroy();
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "of the coroutine"}}));
}

TEST(Ownership, AScopeThatEndsUnderAnAttachmentDoesNotComeBack) {
  std::optional<Scope> scope;
  scope.emplace(tenant, "acme");
  {
    Attach attached{Set::of({{route, "/other"}})};
    scope.reset();
    EXPECT_EQ(test::v1_labels(), (Labels{{"route", "/other"}}));
  }
  EXPECT_EQ(test::v1_slot, nullptr);
}

TEST(Ownership, AScopeThatEndsInsideACoroutineDoesNotComeBack) {
  std::optional<Scope> scope;
  std::coroutine_handle<> parked;
  const auto work = [](std::optional<Scope>& outer, std::coroutine_handle<>& where) -> Detached {
    co_await Parked{where};
    Scope own{route, "/inside"};
    outer.reset();
    EXPECT_EQ(test::v1_labels(), (Labels{{"route", "/inside"}}));
    co_await Parked{where};
    EXPECT_EQ(test::v1_labels(), (Labels{{"route", "/inside"}}));
  };
  work(scope, parked);
  Scope kept{user, "7"};
  scope.emplace(tenant, "acme");
  parked.resume();
  EXPECT_EQ(test::v1_labels(), (Labels{{"user", "7"}}));
  parked.resume();
  EXPECT_EQ(test::v1_labels(), (Labels{{"user", "7"}}));
}

TEST(Ownership, ThreeHundredScopesEndFirstOneFirst) {
  std::vector<Key> keys;
  for (int i = 0; i < 300; ++i) keys.emplace_back("key." + std::to_string(i));
  std::vector<std::optional<Scope>> scopes(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) scopes[i].emplace(keys[i], std::to_string(i));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    scopes[i].reset();
    ASSERT_EQ(test::v1_labels().size(), keys.size() - i - 1);
    ASSERT_EQ(labels::get(keys[i]), std::nullopt) << i;
    if (i + 1 < keys.size()) {
      ASSERT_EQ(labels::get(keys.back()), "299") << i;
    }
  }
  EXPECT_EQ(test::v1_slot, nullptr);
}

TEST(Ownership, WhatWasCapturedStaysWhatever) {
  std::optional<Scope> first, second;
  first.emplace(tenant, "acme");
  second.emplace(route, "/cart");
  const Set between = labels::capture();
  first.reset();
  EXPECT_EQ(test::v1_labels(), (Labels{{"route", "/cart"}}));
  second.reset();
  EXPECT_EQ(test::v1_slot, nullptr);
  churn();
  {
    Attach attached{between};
    EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}, {"route", "/cart"}}));
    Scope scope{user, "7"};
    EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}, {"route", "/cart"}, {"user", "7"}}));
  }
  EXPECT_EQ(test::v1_slot, nullptr);
  std::thread([&between] {
    {
      Attach attached{between};
      EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}, {"route", "/cart"}}));
    }
    EXPECT_EQ(test::v1_slot, nullptr);
  }).join();
}

TEST(Ownership, AnAttachmentThatEndsUnderAnotherIsGone) {
  std::optional<Attach> first, second;
  Scope bottom{user, "7"};
  first.emplace(Set::of({{tenant, "acme"}}));
  Scope between{route, "/cart"};
  second.emplace(Set::of({{tenant, "globex"}}));
  first.reset();
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "globex"}}));
  second.reset();
  EXPECT_EQ(test::v1_labels(), (Labels{{"user", "7"}, {"route", "/cart"}}));
}

TEST(Ownership, AnAttachmentOfASetThatCouldNotBeMadeSaysSo) {
  Scope scope{tenant, "acme"};
  const std::string too_long(labels::max_value_bytes + 1, 'x');
  Attach attached{Set::of({{route, too_long}})};
  EXPECT_FALSE(attached.ok());
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}}));
}

TEST(Ownership, ATraceBelowThatEndsIsGoneFromWhatIsAbove) {
  const labels::Trace below{labels::TraceId{{1}}, labels::SpanId{{2}}},
      above{labels::TraceId{{3}}, labels::SpanId{{4}}};
  std::optional<Scope> first, second, third;
  first.emplace(below);
  second.emplace(tenant, "acme");
  first.reset();
  EXPECT_FALSE(labels::trace().has_value());
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}}));
  third.emplace(above);
  second.reset();
  ASSERT_TRUE(labels::trace().has_value());
  EXPECT_EQ(labels::trace()->trace_id.bytes[0], 3);
  third.reset();
  EXPECT_EQ(test::v1_slot, nullptr);
}

TEST(Ownership, AForkedChildShowsNothingAlsoInsideACoroutine) {
  std::coroutine_handle<> parked;
  int status = -1;
  const auto work = [](std::coroutine_handle<>& where, int& result) -> Detached {
    Scope own{tenant, "of the coroutine"};
    co_await Parked{where};
    if (const pid_t child = fork(); child != 0) {
      waitpid(child, &result, 0);
      co_return;
    }
    if (test::v1_slot != nullptr) _exit(1);
    {
      Scope in_child{user, "child"};
      if (test::v1_labels() != Labels{{"user", "child"}}) _exit(2);
      co_await Parked{where};
      if (test::v1_labels() != Labels{{"user", "child"}}) _exit(3);
    }
    if (test::v1_slot != nullptr) _exit(4);
  };
  work(parked, status);
  const pid_t parent = getpid();
  {
    Scope resumer{route, "/resumer"};
    parked.resume();
    if (getpid() != parent) {
      if (test::v1_slot != nullptr) _exit(5);
      parked.resume();
      if (test::v1_slot != nullptr) _exit(6);
    }
  }
  if (getpid() != parent) _exit(test::v1_slot == nullptr ? 0 : 7);
  EXPECT_EQ(status, 0) << WEXITSTATUS(status);
  EXPECT_EQ(test::v1_slot, nullptr);
}

}  // namespace
}  // namespace vitrine
