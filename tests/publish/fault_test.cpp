// Every allocation and every system call of the publishing side fails in turn: the first, the
// second, and so on, until a run has none left to fail.
//
// The calls are those of failing_calls.hpp: the N-th fails, or all from the N-th on. Each N runs in a process of its own, through everything the library does:
// whatever fails, statuses say so, labels in force are those of the calls that succeeded, and no
// lock is left held. Then, without faults, the same steps must all succeed.
#include <customlabels.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>
#include <vitrine/context.hpp>
#include <vitrine/labels.hpp>

#include "publish/context/mapping.hpp"
#include "publish/context/publisher.hpp"
#include "publish/context_peer.hpp"
#include "publish/failing_calls.hpp"
#include "publish/own_slot.hpp"

namespace vitrine {
namespace {

using labels::Key;
using labels::Scope;
using test::calls;
using test::fault_at;
using test::fault_mode;
using test::inside;
using test::Labels;
using test::last_fault;
using test::Mode;

/// Inside the library, for the calls that `call` makes.
template <class F>
auto in(F&& call) {
  struct Inside {
    Inside() { inside = true; }
    ~Inside() { inside = false; }
  } now;
  return call();
}

custom_labels_string_t str(std::string_view text) {
  return {text.size(), reinterpret_cast<const unsigned char*>(text.data())};
}

/// One process's run. `strict`: nothing fails.
class Steps {
 public:
  explicit Steps(std::string name) : name_(std::move(name)) {}

  bool all(bool strict) {
    strict_ = strict;
    keys();
    scopes();
    threads();
    handles();
    context();
    forks();
    if (strict) records();
    in([] { context::drop(); });
    expect(test::context_signatures(getpid()).empty(), "a dropped context is on display");
    return !failed_;
  }

  bool failed() const { return failed_; }

 private:
  void expect(bool held, const char* what) {
    if (held) return;
    failed_ = true;
    const char* fault = last_fault.load();
    const std::string text = name_ + (strict_ ? ", then without faults: " : ": ") + what + " (" +
                             (fault != nullptr ? fault : "no fault") + ")\n";
    (void)!write(2, text.data(), text.size());
  }

  /// What succeeds, or may fail because of a fault.
  bool done(bool ok, const char* what) {
    if (strict_) expect(ok, what);
    return ok;
  }

  void keys() {
    tenant_ = in([] { return Key{"tenant"}; });
    route_ = in([] { return Key{"route"}; });
    const Key again = in([] { return Key{"tenant"}; });
    done(tenant_->ok() && route_->ok() && again.ok(), "interning");
    expect(!tenant_->ok() || again == *tenant_, "one name, two keys");
  }

  /// Calls `open` for a scope, which has `on_top` if it succeeds, and `then` while it is in force.
  template <class Open, class Then>
  void scope(Open&& open, const Labels& on_top, Then&& then, const char* what) {
    const Labels before = test::v1_labels();
    {
      std::optional<Scope> scope;
      in([&] { open(scope); });
      if (done(scope->ok(), what)) {
        Labels expected = before;
        for (const auto& [key, value] : on_top) expected[key] = value;
        expect(test::v1_labels() == expected, "labels of a scope");
        expect_record(expected);
      } else {
        expect(scope->status() == labels::Status::out_of_memory ||
                   scope->status() == labels::Status::bad_key,
               "status of a scope");
        expect(test::v1_labels() == before, "a scope that failed changed labels");
      }
      then();
      in([&] { scope.reset(); });
    }
    expect(test::v1_labels() == before, "labels after a scope");
  }

  /// Attributes are among the labels, and each is right.
  void expect_record(const Labels& labels) {
    const auto record = test::own_record();
    if (!record) return;
    for (const test::Attribute& attribute : record->attributes) {
      bool known = false;
      for (const auto& [key, value] : labels)
        known = known || value.substr(0, 255) == attribute.value;
      expect(known, "an attribute that is no label");
    }
  }

  void scopes() {
    static const std::string large(60'000, 'x');
    const auto open_one = [&](std::optional<Scope>& to) { to.emplace(*tenant_, "acme"); };
    const auto open_two = [&](std::optional<Scope>& to) {
      to.emplace(std::initializer_list<labels::Label>{{*route_, "/"}, {*tenant_, large}});
    };
    const auto nothing = [] {};
    for (int i = 0; i < 3; ++i) {
      scope(
          open_one, {{"tenant", "acme"}},
          [&] {
            scope(open_two, {{"route", "/"}, {"tenant", large}}, nothing, "a large scope");
            sets();
            run_in_scope();
          },
          "a scope");
    }
    // Sets that are kept, until pages are turned and new ones are made.
    std::vector<labels::Set> kept;
    kept.reserve(600);
    for (int i = 0; i < 600; ++i) {
      const std::string value = std::to_string(i) + std::string(500, 'v');
      kept.push_back(in([&] { return labels::Set::of({{*tenant_, value}}); }));
      if (done(kept.back().ok(), "a set"))
        expect(kept.back().get(*tenant_) == value, "the value of a set");
      else
        expect(kept.back().empty(), "a set that failed has labels");
    }
  }

  void sets() {
    const Labels before = test::v1_labels();
    const labels::Set captured = in([] { return labels::capture(); });
    if (!done(captured.ok(), "a capture")) return;
    expect(captured.size() == before.size(), "a capture");
    {
      std::optional<labels::Attach> none;
      in([&] { none.emplace(labels::Set()); });
      if (done(none->ok(), "attaching the empty set"))
        expect(test::v1_labels().empty(), "labels of the empty set");
      std::optional<labels::Attach> attached;
      const Labels below = test::v1_labels();
      in([&] { attached.emplace(captured); });
      const bool ok = done(attached->ok(), "an attachment");
      expect(test::v1_labels() == (ok ? before : below), "labels of an attachment");
      in([&] { attached.reset(); });
      in([&] { none.reset(); });
    }
    expect(test::v1_labels() == before, "labels after an attachment");
  }

  void threads() {
    const labels::Set set = in([&] { return labels::Set::of({{*tenant_, "thread"}}); });
    if (!done(set.ok(), "a set for a thread")) return;
    std::thread([&] {
      std::optional<labels::Attach> attached;
      in([&] { attached.emplace(set); });
      const bool ok = done(attached->ok(), "an attachment in a thread");
      expect(test::v1_labels() == (ok ? Labels{{"tenant", "thread"}} : Labels{}),
             "labels in a thread");
      in([&] { attached.reset(); });
      const auto open = [&](std::optional<Scope>& to) { to.emplace(*tenant_, "again"); };
      scope(
          open, {{"tenant", "again"}}, [] {}, "a scope in a thread");
      inside = true;  // while it ends
    }).join();
  }

  struct Callback {
    Steps& steps;
    Labels expected;
    bool called = false;
  };
  static void* on_callback(void* data) {
    const bool was_inside = std::exchange(inside, false);
    auto& callback = *static_cast<Callback*>(data);
    callback.called = true;
    callback.steps.expect(test::v1_labels() == callback.expected, "labels in a callback");
    inside = was_inside;
    return data;
  }

  void run_in_scope() {
    const Labels before = test::v1_labels();
    if (before.empty()) return;  // no set is in force
    Callback callback{*this, before};
    callback.expected["route"] = "/called";
    custom_labels_label_t label{str("route"), str("/called")};
    const int error = in([&] {
      return custom_labels_run_with(custom_labels_current(), &label, 1, on_callback, &callback,
                                    nullptr);
    });
    done(error == 0, "run_with on a scope's set");
    expect(callback.called == (error == 0), "run_with on a scope's set: called, or failed");
    expect(test::v1_labels() == before, "labels after run_with on a scope's set");
  }

  Labels labels_of(custom_labels_labelset_t* set) {
    const auto* v1 = reinterpret_cast<const abi::custom_labels::SetV1*>(set);
    return test::labels_at(v1->storage, v1->count);
  }

  void set_label(custom_labels_labelset_t* set, const char* key, const char* value, bool ask_old) {
    const Labels before = labels_of(set);
    custom_labels_string_t old{0, nullptr};
    const int error =
        in([&] { return custom_labels_set(set, str(key), str(value), ask_old ? &old : nullptr); });
    Labels expected = before;
    if (done(error == 0, "setting a label")) expected[key] = value;
    expect(error == 0 || error == ENOMEM, "why setting a label failed");
    expect(labels_of(set) == expected, "labels of a handle");
    std::free(const_cast<unsigned char*>(old.buf));
  }

  void handles() {
    custom_labels_labelset_t* set = in([] { return custom_labels_new(0); });
    if (!done(set != nullptr, "a handle")) return;
    const char* keys[] = {"tenant", "route", "a", "b", "c", "d", "e", "f", "g"};
    for (const char* key : keys) set_label(set, key, "first", false);
    set_label(set, "tenant", "second", true);
    {
      const Labels before = labels_of(set);
      in([&] { custom_labels_delete(set, str("route")); });
      Labels without = before;
      without.erase("route");
      const Labels after = labels_of(set);
      done(after == without, "deleting a label");
      expect(after == without || after == before, "labels after deleting one");
    }
    in([&] { custom_labels_replace(set); });
    const bool in_force = custom_labels_current() == set;
    done(in_force, "putting a handle in force");
    expect(test::v1_labels() == (in_force ? labels_of(set) : Labels{}), "labels of the handle");
    {
      const Labels before = labels_of(set);
      Callback callback{*this, in_force ? before : Labels{}};
      custom_labels_label_t added[] = {{str("tenant"), str("called")}, {str("h"), str("new")}};
      if (in_force) callback.expected["tenant"] = "called";
      if (in_force) callback.expected["h"] = "new";
      const int error = in(
          [&] { return custom_labels_run_with(set, added, 2, on_callback, &callback, nullptr); });
      done(error == 0, "run_with on a handle");
      expect(callback.called || error != 0, "run_with on a handle did nothing");
      expect(labels_of(set) == before, "labels after run_with on a handle");
    }
    custom_labels_labelset_t* copy = in([&] { return custom_labels_clone(set); });
    if (done(copy != nullptr, "a clone")) {
      expect(labels_of(copy) == labels_of(set), "labels of a clone");
      in([&] { custom_labels_free(copy); });
    }
    custom_labels_string_t text{0, nullptr};
    done(in([&] { return custom_labels_debug_string(set, &text); }) == 0, "text of a handle");
    std::free(const_cast<unsigned char*>(text.buf));
    handle_in_fork(set, in_force);
    in([&] { custom_labels_replace(nullptr); });
    expect(test::v1_slot == nullptr, "a handle stays in force");
    in([&] { custom_labels_free(set); });
  }

  void handle_in_fork(custom_labels_labelset_t* set, bool in_force) {
    fork_here([&] {
      expect(test::v1_slot == nullptr, "the parent's handle is in force in the child");
      custom_labels_free(set);
      custom_labels_labelset_t* own = custom_labels_new(0);
      expect(own != nullptr && custom_labels_set(own, str("a"), str("b"), nullptr) == 0,
             "no handle in the child");
    });
    expect(!in_force || custom_labels_current() == set, "a fork took the parent's labels away");
  }

  std::string shown() {
    if (test::context_signatures(getpid()).empty()) return {};
    const auto context = test::read_context(getpid());
    return context ? context->payload : std::string();
  }
  bool shows(const char* text) { return shown().find(text) != std::string::npos; }

  void expect_status(const context::Status& status, const char* what) {
    using context::Errc;
    const bool ok = done(static_cast<bool>(status), what);
    expect(ok || status.code() == Errc::out_of_memory || status.code() == Errc::unsupported,
           "why a context was not published");
    expect(ok || !status.message().empty(), "a status without a message");
  }

  void context() {
    setenv("OTEL_RESOURCE_ATTRIBUTES", "from.list=one,from%2elist2=two", 1);
    std::vector<context::Attribute> resource{{"service.name", "shop"},
                                             {"texts", std::vector<std::string>{"a", "b"}}};
    context::Options options;
    options.attributes = {{"build", std::string(300, 'b')}};
    std::string before = shown();
    const context::Status published =
        in([&] { return context::publish(std::move(resource), std::move(options)); });
    expect_status(published, "publishing");
    expect(published ? shows("shop") && shows("from.list2") : shown() == before,
           "the context on display");
    for (const char* role : {"role.one", "role.two"}) {
      std::vector<context::Attribute> more{{"role", role}};
      before = shown();
      const context::Status updated = in([&] { return context::update(std::move(more)); });
      expect_status(updated, "updating");
      expect(updated ? shows(role) : shown() == before, "the context on display after an update");
      expect(!published || shows("shop"), "an update lost what was published");
    }
    const Key late = in([] { return Key{"late"}; });
    done(late.ok(), "a key after the context");
  }

  /// A fork, faults in its handlers included.
  template <class Body>
  void fork_here(Body&& body) {
    const pid_t child = in([] { return fork(); });
    if (child == 0) {
      fault_at = 0;
      alarm(10);
      failed_ = false;
      body();
      _exit(failed_ || testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    expect(child > 0 && waitpid(child, &status, 0) == child && status == 0, "in a fork child");
  }

  void forks() {
    const auto open = [&](std::optional<Scope>& to) { to.emplace(*tenant_, "parent"); };
    const auto in_scope = [&] {
      fork_here([&] {
        expect(test::v1_slot == nullptr && test::record_slot == nullptr,
               "the parent's labels are in force in the child");
        const std::string mine = shown();
        done(!mine.empty(), "the child's own context");
        const context::Status updated = context::update({{"who", "child"}});
        expect(static_cast<bool>(updated), "updating in the child");
        expect(shows("child"), "the child's context");
        const Key key{"of the child"};
        Scope scope{key, "mine"};
        expect(test::v1_labels() == Labels{{"of the child", "mine"}}, "labels of the child");
        std::thread([&] {
          Scope in_thread{key, "thread"};
          expect(in_thread.ok(), "a scope in the child's thread");
        }).join();
      });
    };
    scope(open, {{"tenant", "parent"}}, in_scope, "a scope across fork");
  }

  /// Keys that could not be in records at first are, now; with values of earlier scopes, too.
  void records() {
    const std::pair<Key, const char*> all[] = {{*tenant_, "tenant"}, {*route_, "route"}};
    for (const auto& [key, name] : all) {
      for (const char* value : {"acme", "one", "one", "two"}) {
        Scope scope{key, value};
        const auto record = test::own_record();
        expect(record && test::attribute(*record, *publish::otel_key_index(name)) == value,
               "a key is not in records");
      }
      expect(shows(name), "a key is not in the key map");
    }
  }

  std::string name_;
  bool strict_ = false;
  bool failed_ = false;
  std::optional<Key> tenant_, route_;
};

constexpr int no_fault_left = 3;

/// The result of a run in a process of its own.
int run(Mode mode, long at) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    fault_mode = mode;
    fault_at = at;
    Steps steps((mode == Mode::once ? "call " : "from call ") + std::to_string(at));
    steps.all(false);
    const bool hit = calls >= at;
    fault_at = 0;
    steps.all(true);
    _exit(steps.failed() || testing::Test::HasFailure() ? 1 : hit ? 0 : no_fault_left);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -status;
  return WEXITSTATUS(status);
}

void fail_each(Mode mode) {
  long at = 1;
  int bad = 0;
  for (int result = 0; bad < 5; ++at) {
    result = run(mode, at);
    if (result == no_fault_left) break;
    if (result != 0) ++bad;
    EXPECT_EQ(result, 0) << "call " << at << " (negative: a signal)";
  }
  std::printf("%ld calls failed in turn\n", at - 1);
  EXPECT_GT(at, 100);
}

TEST(Faults, EachCallFailsOnce) {
  fail_each(Mode::once);
}

TEST(Faults, AllCallsFailFromEachOneOn) {
  fail_each(Mode::from_then_on);
}

/// The attribute of "tenant" in scopes of the label: a short value, a long one, and two labels.
std::vector<std::optional<std::string>> attributes_in_scopes(Key tenant, Key other) {
  std::vector<std::optional<std::string>> seen;
  const auto see = [&](const Scope& scope) {
    EXPECT_TRUE(scope.ok());
    const auto context = test::read_context(getpid());
    const bool mapped = context && context->payload.find("tenant") != std::string::npos;
    seen.push_back(mapped ? test::attribute(test::own_record().value(),
                                            publish::otel_key_index("tenant").value())
                          : std::nullopt);
  };
  see(Scope{tenant, "acme"});
  see(Scope{tenant, "a longer value than is found by itself"});
  see(Scope{{other, "7"}, {tenant, "acme"}});
  return seen;
}

// The key itself is not made again; scopes of its labels were entered before.
TEST(Faults, AKeyThatMissedTheKeyMapIsInRecordsLater) {
  const std::function<void()> uses[] = {
      [] { EXPECT_TRUE(Key{"another"}.ok()); },
      [] { EXPECT_TRUE(Key{"tenant"}.ok()); },
      [] {
        EXPECT_TRUE(context::update({{"service.name", "shop"}}));
      },
      [] { EXPECT_TRUE(context::publish()); },
  };
  for (const auto& use : uses) {
    test::in_fork([&] {
      // The first call for the key map: after the search for another context, which may fail.
      calls = 0;
      in([] { return context::find_other_context(nullptr); });
      fault_at = calls.exchange(0) + 1;
      const Key tenant = in([] { return Key{"tenant"}; });
      calls = 0;
      const Key other = in([] { return Key{""}; });  // not for records, and does not try again
      fault_at = 0;
      ASSERT_TRUE(tenant.ok() && other.ok());
      for (int i = 0; i < 3; ++i)
        EXPECT_THAT(attributes_in_scopes(tenant, other), testing::Each(std::nullopt));
      use();
      for (int i = 0; i < 3; ++i)
        EXPECT_THAT(attributes_in_scopes(tenant, other),
                    testing::ElementsAre("acme", "a longer value than is found by itself", "acme"));
    });
  }
}

TEST(Load, HandlersThatWereRefusedAreRegisteredLater) {
  if (getenv("VITRINE_TEST_REFUSE_AT_LOAD") != nullptr) {  // the program that is started below
    custom_labels_labelset_t* refused = custom_labels_new(0);
    EXPECT_EQ(refused, nullptr) << "a fork child would show its labels";
    Steps steps("handlers refused at load");
    EXPECT_TRUE(steps.all(true));
    return;
  }
  const pid_t child = fork();
  if (child == 0) {
    setenv("VITRINE_TEST_REFUSE_AT_LOAD", "1", 1);
    execl("/proc/self/exe", "fault_test",
          "--gtest_filter=Load.HandlersThatWereRefusedAreRegisteredLater", nullptr);
    _exit(127);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace vitrine
