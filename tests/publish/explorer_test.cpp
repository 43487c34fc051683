// Every pair of operations: one is interrupted by the other, as a signal handler or on another thread, at
// each of its instructions; and at each instruction an observer looks at what the thread shows. It must
// be what was in force before, or what the operation puts in force, whole.
#include <customlabels.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <coroutine>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>
#include <vitrine/coroutine.hpp>
#include <vitrine/labels.hpp>

#include "publish/own_slot.hpp"
#include "publish/stepping.hpp"

#if defined(__x86_64__)

namespace vitrine {
namespace {

using labels::Attach;
using labels::Key;
using labels::Scope;
using labels::Set;
using test::Labels;
using test::Stepping;
using Shown = std::vector<Labels>;

const Key below{"below"}, own{"own"}, other{"other"}, handler_key{"handler"};

/// Whether the thread shows these labels and nothing else, also no null keys. Allocates no memory.
bool shows(const Labels& want) {
  const auto* set = test::v1_slot;
  std::size_t found = 0, count = 0;
  for (std::size_t i = 0; set != nullptr && i < set->count; ++i) {
    const auto* label = reinterpret_cast<const abi::custom_labels::Label*>(set->storage) + i;
    if (label->key.buf == 0) return false;
    ++count;
    const std::string_view key(reinterpret_cast<const char*>(label->key.buf), label->key.len);
    const std::string_view value(reinterpret_cast<const char*>(label->value.buf), label->value.len);
    for (const auto& [want_key, want_value] : want) found += want_key == key && want_value == value;
  }
  return found == want.size() && count == want.size();
}

custom_labels_string_t text(const char* from) {
  return {std::strlen(from), reinterpret_cast<const unsigned char*>(from)};
}

/// A coroutine that suspends for ever, and one that the handler has for itself.
struct Looping {
  struct promise_type : labels::CoroutineLabels {
    Looping get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    auto initial_suspend() noexcept { return starting(std::suspend_always{}); }
    auto final_suspend() noexcept { return hop(std::suspend_always{}); }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};
Looping loop_of(const char* value) {
  Scope scope{own, value};
  while (true) co_await std::suspend_always{};
}

/// What operations work on. Those of the handler are its own, except for the handle `shared`.
struct Subjects {
  Set set = Set::of({{own, "set"}});
  Looping coroutine = loop_of("coroutine");
  custom_labels_labelset_t* handle = nullptr;

  Subjects() {
    handle = custom_labels_new(2);
    custom_labels_set(handle, text("own"), text("handle"), nullptr);
    coroutine.handle.resume();
  }
  Subjects(const Subjects&) = delete;
  Subjects& operator=(const Subjects&) = delete;
  ~Subjects() {
    custom_labels_free(handle);
    coroutine.handle.destroy();
  }
};
Subjects *mine, *handlers;
custom_labels_labelset_t* shared;  ///< in force below, in one kind of round
constexpr const char* other_value = "replaced";
constexpr const char* long_value = "a value that has more than one unit";

struct Operation {
  const char* name;
  void (*run)(Subjects& subjects);
  /// What it may put in force, on top of this.
  Shown (*shown)(const Labels& base);
  bool in_handlers = true;
  bool slow = false;   ///< interrupted by one other operation only
  bool edits = false;  ///< the set that is in force below
  bool adds = false;   ///< a label to that set, which stays
  bool reads = false;  ///< that set
};

Labels with(Labels base, const char* key, const char* value) {
  base[key] = value;
  return base;
}

const Operation operations[] = {
    {"scope",
     [](Subjects&) {
       Scope scope{own, "scope"};
     },
     [](const Labels& base) { return Shown{with(base, "own", "scope")}; }},
    {"scopes of several labels",
     [](Subjects&) {
       Scope outer{{own, "outer"}, {other, "a longer value than fits into two words"}};
       Scope inner{own, "inner"};
     },
     [](const Labels& base) {
       const Labels outer =
           with(with(base, "own", "outer"), "other", "a longer value than fits into two words");
       return Shown{outer, with(outer, "own", "inner")};
     }},
    {"scopes that end out of order",
     [](Subjects&) {
       std::optional<Scope> first, second;
       first.emplace(own, "first");
       second.emplace(other, "second");
       first.reset();
     },
     [](const Labels& base) {
       return Shown{with(base, "own", "first"), with(with(base, "own", "first"), "other", "second"),
                    with(base, "other", "second")};
     }},
    {"attach", [](Subjects& on) { Attach attached{on.set}; },
     [](const Labels&) {
       return Shown{{{"own", "set"}}};
     }},
    {"attach that ends below a scope",
     [](Subjects& on) {
       std::optional<Attach> attached;
       attached.emplace(on.set);
       Scope scope{other, "scope"};
       attached.reset();
     },
     [](const Labels& base) {
       return Shown{
           {{"own", "set"}}, {{"own", "set"}, {"other", "scope"}}, with(base, "other", "scope")};
     }},
    {"capture",
     [](Subjects&) {
       const Set set = labels::capture();
       const Set copy = set;
     },
     [](const Labels&) { return Shown{}; }},
    {"hop in and out", [](Subjects& on) { on.coroutine.handle.resume(); },
     [](const Labels&) {
       return Shown{{{"own", "coroutine"}}};
     }},
    {"replace",
     [](Subjects& on) {
       custom_labels_labelset_t* before = custom_labels_replace(on.handle);
       custom_labels_replace(before);
     },
     [](const Labels&) {
       return Shown{{{"own", "handle"}}};
     }},
    {"clone, set, delete, free",
     [](Subjects& on) {
       custom_labels_labelset_t* clone = custom_labels_clone(on.handle);
       custom_labels_set(clone, text("other"), text("clone"), nullptr);
       custom_labels_delete(clone, text("own"));
       custom_labels_free(clone);
     },
     [](const Labels&) { return Shown{}; }},
    {"set, in force",
     [](Subjects& on) {
       custom_labels_labelset_t* before = custom_labels_replace(on.handle);
       custom_labels_set(on.handle, text("other"), text("set"), nullptr);
       custom_labels_delete(on.handle, text("other"));
       custom_labels_replace(before);
     },
     [](const Labels&) {
       return Shown{{{"own", "handle"}}, {{"own", "handle"}, {"other", "set"}}};
     }},
    {"run_with",
     [](Subjects& on) {
       custom_labels_labelset_t* before = custom_labels_replace(on.handle);
       custom_labels_label_t labels[] = {{text("own"), text("run")}, {text("other"), text("run")}};
       custom_labels_run_with(
           on.handle, labels, 2, [](void*) -> void* { return nullptr; }, nullptr, nullptr);
       custom_labels_replace(before);
     },
     [](const Labels&) {
       return Shown{{{"own", "handle"}}, {{"own", "run"}, {"other", "run"}}};
     }},
    {"edit of the handle that is in force below",
     [](Subjects&) {
       if (shared == nullptr) return;
       custom_labels_set(shared, text("handler"), text("was here"), nullptr);
       // What the edit gave up is written over, if anything can be.
       for (int i = 0; i < 40; ++i) {
         Scope scope{own, i % 2 == 0 ? "written over" : "once more"};
         custom_labels_free(custom_labels_clone(custom_labels_current()));
       }
     },
     [](const Labels& base) {
       Shown all;
       for (const Labels& under : {base, with(base, "handler", "was here")}) {
         all.push_back(under);
         all.push_back(with(under, "own", "written over"));
         all.push_back(with(under, "own", "once more"));
       }
       return all;
     },
     true, false, true, true},
    {"other values of the handle that is in force below",
     [](Subjects&) {
       if (shared == nullptr) return;
       for (const char* value : {other_value, long_value, "handle"})
         custom_labels_set(shared, text("below"), text(value), nullptr);
     },
     [](const Labels& base) {
       return Shown{with(base, "below", other_value), with(base, "below", long_value)};
     },
     true, false, true},
    {"clone of the handle that is in force below",
     [](Subjects&) {
       if (shared == nullptr) return;
       custom_labels_labelset_t* clone = custom_labels_clone(shared);
       const custom_labels_label_t* label = custom_labels_get(clone, text("below"));
       bool known = false;
       for (const char* value : {"handle", other_value, long_value})
         known = known || (label != nullptr && label->value.len == std::strlen(value) &&
                           std::memcmp(label->value.buf, value, label->value.len) == 0);
       if (!known) std::abort();
       custom_labels_free(clone);
     },
     [](const Labels&) { return Shown{}; }, true, false, false, false, true},
    {"interning a key",
     [](Subjects&) {
       static int number = 0;
       char name[32];
       std::snprintf(name, sizeof name, "explored.%d", ++number);
       if (!Key{name}.ok()) std::abort();
     },
     [](const Labels&) { return Shown{}; }, false},  // it may lock and allocate
    {"fork",
     [](Subjects&) {
       const pid_t child = fork();
       if (child == 0) _exit(test::v1_slot == nullptr ? 0 : 1);
       int status = 0;
       waitpid(child, &status, 0);
       if (status != 0) std::abort();
     },
     [](const Labels&) { return Shown{}; }, false, true},
};

// What the observer compares with; it must not allocate.
Shown allowed;
long not_allowed, handler_left_another, looked;

void look() {
  ++looked;
  for (const Labels& one : allowed) {
    if (shows(one)) return;
  }
  ++not_allowed;
}

const Operation* interrupting;
bool interrupted;

void interrupt_here() {
  interrupted = true;
  look();
  const auto* before = test::v1_slot;
  interrupting->run(*handlers);
  if (test::v1_slot != before) ++handler_left_another;
}

/// The second thread: runs the interrupting operation when it is asked to.
class Second {
 public:
  Second() : thread_([this] { loop(); }) {
    while (handlers == nullptr) std::this_thread::yield();
  }
  Second(const Second&) = delete;
  Second& operator=(const Second&) = delete;
  ~Second() {
    ask(last);
    thread_.join();
  }
  /// In a forked child there is no second thread.
  void run() {
    if (getpid() == process_) ask(work);
  }

 private:
  static constexpr int idle = 0, work = 1, last = 2;

  /// Also in a signal handler.
  void ask(int what) {
    asked_.store(what);
    asked_.notify_one();
    for (int now = asked_.load(); now != idle; now = asked_.load()) asked_.wait(now);
  }
  void loop() {
    Subjects subjects;
    handlers = &subjects;
    for (int what = idle; what != last;) {
      asked_.wait(idle);
      what = asked_.load();
      if (what == work) interrupting->run(subjects);
      if (what == last) handlers = nullptr;
      if (what == work && test::v1_slot != nullptr) ++handler_left_another;
      asked_.store(idle);
      asked_.notify_one();
    }
  }

  const pid_t process_ = getpid();
  std::atomic<int> asked_{idle};
  std::thread thread_;
};
Second* second;

void interrupt_by_second() {
  interrupted = true;
  look();
  second->run();
}

enum class Base { nothing, scope, handle };
enum class By { handler, thread };

class Explorer : public testing::TestWithParam<std::tuple<Base, By>> {};

TEST_P(Explorer, NoPairOfOperationsShowsAnythingElse) {
  const auto [on, by] = GetParam();
  const bool by_thread = by == By::thread;
  long instructions = 0, pairs = 0;
  Subjects subjects;
  std::optional<Subjects> subjects_of_handlers;
  std::optional<Second> other_thread;
  mine = &subjects;
  if (by_thread) {
    second = &other_thread.emplace();
  } else {
    handlers = &subjects_of_handlers.emplace();
  }
  std::optional<Scope> scope;
  Labels base;
  const auto begin = [&, on = on] {
    if (on == Base::scope) {
      if (!scope) scope.emplace(below, "scope");
      base = {{"below", "scope"}};
    } else if (on == Base::handle) {
      shared = custom_labels_new(1);
      // So many versions that those out of use are used again.
      for (int i = 0; i < 40; ++i)
        custom_labels_set(shared, text("below"), text(i % 2 == 0 ? other_value : "handle"),
                          nullptr);
      custom_labels_replace(shared);
      base = {{"below", "handle"}};
    }
  };
  const auto end = [&] {
    if (shared == nullptr) return;
    custom_labels_replace(nullptr);
    custom_labels_free(std::exchange(shared, nullptr));
  };
  looked = 0;
  for (const Operation& operation : operations) {
    for (const Operation& handler : operations) {
      if (!handler.in_handlers || (operation.slow && &handler != &operations[1])) continue;
      // A handler that edits the handle may come before what inherits from it, or after.
      const bool edits = handler.edits || operation.edits;
      if (edits && on != Base::handle) continue;
      // One thread at a time may edit it; and threads share nothing else that they know.
      if (by_thread && handler.edits && operation.edits) continue;
      if (by_thread && on == Base::handle && !handler.edits && !handler.reads) continue;
      begin();
      const auto allow = [&](const Labels& under) {
        allowed.push_back(under);
        for (Labels& one : operation.shown(under)) allowed.push_back(std::move(one));
      };
      allowed.clear();
      allow(base);
      if (edits) allow(with(base, "handler", "was here"));
      // The handler's edits, on top of each other and of the operation's.
      if (handler.edits) {
        for (const Labels& under : handler.shown(base)) allow(under);
      }
      end();
      interrupting = &handler;
      not_allowed = handler_left_another = 0;
      SCOPED_TRACE(std::string(operation.name) + ", interrupted by: " + handler.name);
      instructions += Stepping::each(
          by_thread ? interrupt_by_second : interrupt_here,
          [&](long) {
            begin();
            interrupted = false;
            Stepping::on();
            operation.run(*mine);
            Stepping::off();
            // No edit is lost.
            const bool added = operation.adds || (handler.adds && interrupted);
            if (!shows(added ? with(base, "handler", "was here") : base))
              ADD_FAILURE() << "afterwards it shows " << testing::PrintToString(test::v1_labels());
            end();
          },
          look);
      EXPECT_EQ(not_allowed, 0);
      EXPECT_EQ(handler_left_another, 0);
      if (HasFailure()) return;
      ++pairs;
    }
  }
  std::printf("%ld pairs, interrupted at %ld instructions, looked at %ld times\n", pairs,
              instructions, looked);
  EXPECT_GT(instructions, 10'000);
}

INSTANTIATE_TEST_SUITE_P(On, Explorer,
                         testing::Values(std::tuple(Base::nothing, By::handler),
                                         std::tuple(Base::scope, By::handler),
                                         std::tuple(Base::handle, By::handler),
                                         std::tuple(Base::nothing, By::thread),
                                         std::tuple(Base::handle, By::thread)),
                         [](const auto& tested) {
                           const Base on = std::get<0>(tested.param);
                           const bool by_thread = std::get<1>(tested.param) == By::thread;
                           return std::string(on == Base::nothing ? "nothing"
                                              : on == Base::scope ? "scope"
                                                                  : "handle") +
                                  (by_thread ? "_by_thread" : "");
                         });

}  // namespace
}  // namespace vitrine

#endif
