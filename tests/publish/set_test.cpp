// Sets that are captured, prepared, and carried to other threads.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
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

Labels labels_of(const Set& set) {
  Labels all;
  for (const auto& [key, value] : set) EXPECT_TRUE(all.emplace(key, value).second) << key;
  return all;
}

TEST(Set, IsIteratedOver) {
  EXPECT_EQ(labels_of(Set{}), Labels{});
  EXPECT_TRUE(Set{}.begin() == Set{}.end());
  const Set set = Set::of({{tenant, "acme"}, {route, ""}, {tenant, "second"}});
  EXPECT_EQ(labels_of(set), (Labels{{"tenant", "acme"}, {"route", ""}}));
  EXPECT_EQ(std::distance(set.begin(), set.end()), static_cast<std::ptrdiff_t>(set.size()));
  Scope outer{tenant, "outer"};
  Scope inner{route, "/cart"};
  EXPECT_EQ(labels_of(labels::capture()), (Labels{{"tenant", "outer"}, {"route", "/cart"}}));
}

TEST(Set, WithMakesAnotherSet) {
  const Set base = Set::of({{tenant, "acme"}});
  const Set both = base.with(route, "/cart");
  const Set other = both.with({{tenant, "bmce"}, {Key{"user"}, "7"}});
  EXPECT_EQ(labels_of(base), (Labels{{"tenant", "acme"}}));
  EXPECT_EQ(labels_of(both), (Labels{{"tenant", "acme"}, {"route", "/cart"}}));
  EXPECT_EQ(labels_of(other), (Labels{{"tenant", "bmce"}, {"route", "/cart"}, {"user", "7"}}));
  EXPECT_EQ(labels_of(Set{}.with(route, "/")), (Labels{{"route", "/"}}));
  EXPECT_EQ(test::v1_slot, nullptr);
  auto attached = labels::attach(other);
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "bmce"}, {"route", "/cart"}, {"user", "7"}}));
}

TEST(Set, WithOutlivesWhatItWasMadeFrom) {
  Set set = Set::of({{tenant, "acme"}});
  set = set.with(route, "/cart");
  for (int i = 0; i < 20'000; ++i) Scope scope{tenant, std::to_string(i)};
  for (int i = 0; i < 2'000; ++i) set = set.with(Key{"n"}, std::to_string(i));
  EXPECT_EQ(labels_of(set), (Labels{{"tenant", "acme"}, {"route", "/cart"}, {"n", "1999"}}));
}

TEST(Set, WithKeepsTheTrace) {
  labels::Trace trace;
  trace.trace_id.bytes[0] = 1;
  trace.span_id.bytes[0] = 2;
  const Set set = Set::of({{tenant, "acme"}}).with(trace).with(route, "/cart");
  auto attached = labels::attach(set);
  const auto shown = labels::trace();
  ASSERT_TRUE(shown.has_value());
  EXPECT_EQ(shown->trace_id.bytes, trace.trace_id.bytes);
  EXPECT_EQ(shown->span_id.bytes, trace.span_id.bytes);
  EXPECT_EQ(set.get(route), "/cart");
  EXPECT_EQ(set.get(tenant), "acme");
}

TEST(Set, WithSaysWhyItFailed) {
  const Set base = Set::of({{tenant, "acme"}});
  const std::string too_long(labels::max_value_bytes + 1, 'x');
  const Set bad = base.with(route, too_long);
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().message(), "a value is longer than 64 KiB");
  EXPECT_EQ(bad.with(route, "/").status(), labels::Status::value_too_large);
  EXPECT_EQ(base.with(Key{std::string(labels::max_key_bytes + 1, 'k')}, "v").status(),
            labels::Status::bad_key);
}

TEST(Status, HasATextForEachCode) {
  std::set<std::string_view> texts;
  std::size_t codes = 0;
  for (unsigned code = 0; code < 256; ++code) {
    const std::string_view text = to_string(static_cast<Errc>(code));
    if (text == "unknown error") continue;
    ++codes;
    texts.insert(text);
    const Status status = static_cast<Errc>(code);
    EXPECT_EQ(static_cast<bool>(status), code == 0);
    EXPECT_EQ(status.message(), code == 0 ? "" : text);
  }
  EXPECT_EQ(codes, 10U);
  EXPECT_EQ(texts.size(), codes);
  EXPECT_EQ(Status(Errc::unsupported, "memfd_create: refused").message(), "memfd_create: refused");
  const Status cut(Errc::unsupported, std::string(300, 'x'));
  EXPECT_EQ(cut.message().size(), Status::max_message);
  EXPECT_EQ(cut.message().data()[cut.message().size()], '\0');
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

struct Worker {
  int add(int n) { return value + n + (int)labels::get(tenant)->size(); }
  [[nodiscard]] int read() const { return value; }
  int value = 10;
};
struct Foreman : Worker {};

TEST(Set, BindTakesPointersToMembers) {
  const Set set = Set::of({{tenant, "acme"}});
  const auto add = labels::bind(set, &Worker::add);
  Foreman object;
  auto owned = std::make_unique<Worker>();
  EXPECT_EQ(add(object, 1), 15);
  EXPECT_EQ(add(Foreman{}, 1), 15);
  EXPECT_EQ(add(&object, 2), 16);
  EXPECT_EQ(add(owned, 3), 17);
  EXPECT_EQ(add(std::ref(object), 4), 18);
  const Worker constant;
  EXPECT_EQ(labels::bind(set, &Worker::read)(constant), 10);
  auto value = labels::bind(set, &Worker::value);
  value(object) = 20;
  value(std::ref(object)) += 1;
  EXPECT_EQ(object.value, 21);
  EXPECT_EQ(&value(constant), &constant.value);
}

TEST(Set, BoundCanBeCalledWithWhatItsCallableCan) {
  const auto changes = labels::bind([n = 0](int) mutable { ++n; });
  using Changes = std::decay_t<decltype(changes)>;
  static_assert(std::is_invocable_v<Changes&, int>);
  static_assert(!std::is_invocable_v<const Changes&, int>);
  static_assert(!std::is_invocable_v<Changes&>);
  static_assert(!std::is_constructible_v<std::function<void()>, Changes>);
  static_assert(
      std::is_same_v<std::invoke_result_t<decltype(labels::bind(&Worker::value)), Worker&>, int&>);
#ifdef __cpp_lib_jthread
  Labels seen, stoppable;
  {
    Scope scope{tenant, "acme"};
    std::jthread without(labels::bind([&] { seen = test::v1_labels(); }));
    std::jthread with(labels::bind([&](const std::stop_token&) { stoppable = test::v1_labels(); }));
  }
  EXPECT_EQ(seen, (Labels{{"tenant", "acme"}}));
  EXPECT_EQ(stoppable, seen);
#endif
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
