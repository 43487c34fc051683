// Random programs that open, move and end scopes, attachments, captures, coroutines and handles of the
// C interface in any order, beside a reference model (programs_model.hpp): after each step the thread shows what the model says. Programs run on two
// threads in turn, so that coroutines go on where they did not suspend.
//
//   programs_test [programs [seed]]       as a program; as a test it runs VITRINE_PROGRAMS of them
#include <customlabels.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <vector>
#include <vitrine/coroutine.hpp>
#include <vitrine/labels.hpp>

#include "publish/context/publisher.hpp"
#include "publish/own_slot.hpp"
#include "publish/programs_model.hpp"
#include "publish/programs_runners.hpp"

namespace vitrine {
namespace {

using labels::Attach;
using labels::Key;
using labels::Scope;
using labels::Set;
using test::Holder;
using test::Labels;
using test::Model;
using test::Other;
using test::Stack;
using test::work;
using test::Worker;

custom_labels_string_t str(std::string_view text) {
  return {text.size(), reinterpret_cast<const unsigned char*>(text.data())};
}

const Key keys[] = {Key{"a"}, Key{"b"}, Key{"c"}, Key{"d"}, Key{"e"}};
const char* const names[] = {"a", "b", "c", "d", "e"};

class Program {
 public:
  /// `records`: handles have OpenTelemetry records.
  Program(std::uint64_t seed, Other* other, bool records)
      : random_(seed), other_(other), records_(records) {}

  /// Empty, or what went wrong.
  std::string run() {
    const int steps = 4 + pick(28);
    for (int i = 0; i < steps && wrong_.empty(); ++i) step(0);
    finish();
    return wrong_.empty() ? "" : wrong_ + "\n" + text_;
  }

 private:
  struct Open {
    int id;
    int home;  ///< thread, or -1 - coroutine: where it may end
    std::unique_ptr<std::optional<Scope>> scope;
    std::unique_ptr<std::optional<Attach>> attach;
  };
  struct Captured {
    Set set;
    Labels labels;
  };
  struct Handle {
    custom_labels_labelset_t* set;
    Labels labels;
    int holder;  ///< in the model, where it is in force; 0: nowhere
    bool lent;   ///< to custom_labels_run_with: not to be edited
  };

  int pick(int below) { return static_cast<int>(random_() % static_cast<std::uint64_t>(below)); }

  void log(const std::string& text) { text_ += text + "; "; }

  void check(int thread) {
    const Labels want = model_.on(thread), have = test::v1_labels();
    if (want == have || !wrong_.empty()) return;
    const auto print = [](const Labels& labels) {
      std::string text = "{";
      for (const auto& [key, value] : labels) text += key + "=" + value + " ";
      return text + "}";
    };
    wrong_ = "shows " + print(have) + ", not " + print(want) + " after " + std::to_string(count_) +
             " steps";
  }

  /// The labels as readers of the OpenTelemetry record see them.
  void check_record() {
#if VITRINE_TEST_OTEL
    if (!wrong_.empty()) return;
    const Labels want = test::v1_labels();
    const auto record = test::own_record();
    if (!record) {
      if (records_ && !want.empty()) wrong_ = "there is no record";
      return;
    }
    Labels have;
    for (const test::Attribute& attribute : record->attributes) {
      for (std::size_t i = 0; i < std::size(names); ++i) {
        if (publish::otel_key_index(names[i]) == attribute.key) have[names[i]] = attribute.value;
      }
    }
    if (have != want) wrong_ = "the record has other labels than the set";
#endif
  }

  int here(int thread) const {
    return model_.running[thread].empty() ? thread : -1 - model_.running[thread].back();
  }

  /// Where a holder may end on this thread: it was made here or in a coroutine that runs here.
  bool may_end(const Open& open, int thread) const {
    if (open.id < sealed_[thread]) return false;  // below a handle, which will be put back
    if (open.home >= 0) return open.home == thread;
    const auto& running = model_.running[thread];
    return std::find(running.begin(), running.end(), -1 - open.home) != running.end();
  }

  void step(int thread) {
    if (!wrong_.empty() || count_ > 200) return;
    ++count_;
    switch (pick(other_ != nullptr && thread == 0 ? 15 : 14)) {
      case 0:
      case 1:
      case 2:
        open_scope(thread);
        break;
      case 3:
        open_attach(thread);
        break;
      case 4:
      case 5:
        end_one(thread);
        break;
      case 6:
        capture(thread);
        break;
      case 7:
        make_coroutine(thread);
        break;
      case 8:
        resume(thread);
        break;
      case 9:
        pick(3) == 0 ? destroy(thread) : churn();
        break;
      case 10:
        make_handle(thread);
        break;
      case 11:
        edit_handle(thread);
        break;
      case 12:
        pick(2) == 0 ? use_handle(thread) : run_with_labels(thread);
        break;
      case 13:
        pick(2) == 0 ? visit(thread) : edit_often(thread);
        break;
      case 14:
        on_other();
        break;
    }
    check(thread);
    if (count_ % 8 == 0) check_record();
  }

  void open_scope(int thread) {
    const int count = 1 + pick(2);
    std::vector<labels::Label> list;
    std::vector<std::string> values;
    Labels labels;
    values.reserve(2);
    for (int i = 0; i < count; ++i) {
      const int key = pick(5);
      values.push_back(std::string(1, static_cast<char>('0' + pick(3))));
      if (pick(6) == 0)
        values.back() = std::string(static_cast<std::size_t>(20 + pick(30)), values.back()[0]);
      list.emplace_back(keys[key], values.back());
      labels.emplace(names[key], values.back());
    }
    Open open{++ids_, here(thread), std::make_unique<std::optional<Scope>>(), nullptr};
    if (count == 1)
      open.scope->emplace(list[0].key, list[0].value);
    else
      open.scope->emplace(list.data(), list.size());
    model_.top(thread).push_back({open.id, false, labels});
    log("t" + std::to_string(thread) + " scope " + std::to_string(open.id) + " in " +
        std::to_string(open.home));
    opened_.push_back(std::move(open));
  }

  void open_attach(int thread) {
    if (captured_.empty()) return;
    const Captured& one =
        captured_[static_cast<std::size_t>(pick(static_cast<int>(captured_.size())))];
    Open open{++ids_, here(thread), nullptr, std::make_unique<std::optional<Attach>>()};
    open.attach->emplace(one.set);
    model_.top(thread).push_back({open.id, true, one.labels});
    log("t" + std::to_string(thread) + " attach " + std::to_string(open.id));
    opened_.push_back(std::move(open));
  }

  void end_one(int thread) {
    std::vector<std::size_t> can;
    for (std::size_t i = 0; i < opened_.size(); ++i) {
      if (may_end(opened_[i], thread)) can.push_back(i);
    }
    if (can.empty()) return;
    const std::size_t at = pick(2) == 0
                               ? can.back()
                               : can[static_cast<std::size_t>(pick(static_cast<int>(can.size())))];
    Open open = std::move(opened_[at]);
    opened_.erase(opened_.begin() + static_cast<std::ptrdiff_t>(at));
    log("t" + std::to_string(thread) + " end " + std::to_string(open.id));
    end(open);
  }

  void end(Open& open) {
    if (open.scope) open.scope->reset();
    if (open.attach) open.attach->reset();
    model_.end(open.id);
  }

  void capture(int thread) {
    log("t" + std::to_string(thread) + " capture");
    captured_.push_back({labels::capture(), model_.on(thread)});
    if (captured_.size() > 6) captured_.erase(captured_.begin() + pick(6));
  }

  void make_coroutine(int thread) {
    if (model_.coroutines.size() >= 6) return;
    log("t" + std::to_string(thread) + " coroutine " + std::to_string(coroutines_.size()));
    coroutines_.push_back(work());
    model_.coroutines.push_back(Model::Coroutine{{{++ids_, true, model_.on(thread)}}, -1});
  }

  std::vector<int> idle() const {
    std::vector<int> all;
    for (std::size_t i = 0; i < model_.coroutines.size(); ++i) {
      if (model_.coroutines[i] && model_.coroutines[i]->on < 0) all.push_back(static_cast<int>(i));
    }
    return all;
  }

  void resume(int thread) {
    const std::vector<int> can = idle();
    if (can.empty()) return;
    const int which = can[static_cast<std::size_t>(pick(static_cast<int>(can.size())))];
    log("t" + std::to_string(thread) + " resume " + std::to_string(which));
    auto handle = coroutines_[static_cast<std::size_t>(which)].handle;
    std::function<void()> job = [&] {
      check(thread);
      for (int i = pick(5); i > 0; --i) step(thread);
      log("t" + std::to_string(thread) + " suspend " + std::to_string(which));
    };
    model_.coroutines[static_cast<std::size_t>(which)]->on = thread;
    model_.running[thread].push_back(which);
    handle.promise().job = &job;
    handle.promise().over = pick(8) == 0;
    const bool over = handle.promise().over;
    if (over) {
      // Its holders end with its frame, in the reverse order, while it runs.
      handle.promise().over = false;
      job = [&] {
        check(thread);
        end_all_of(which);
        check(thread);
        handle.promise().over = true;
      };
    }
    handle.resume();
    const test::End end = over ? some_end() : test::End::suspended;
    if (over) test::run_to_end(handle, end);
    model_.running[thread].pop_back();
    model_.coroutines[static_cast<std::size_t>(which)]->on = -1;
    if (!over) return;
    if (end == test::End::thrown) {
      // The next use of labels detects it.
      static_cast<void>(labels::get(keys[0]));
      check(thread);
    }
    if (end != test::End::gone) handle.destroy();
    model_.coroutines[static_cast<std::size_t>(which)].reset();
  }

  test::End some_end() {
    const auto end = static_cast<test::End>(pick(3));
    log("end it " + std::to_string(static_cast<int>(end)));
#if !defined(__cpp_exceptions) || (defined(__clang__) && __clang_major__ < 16)
    // These frames are not marked as done by an exception (docs/essays/ownership.md).
    if (end == test::End::thrown) return test::End::suspended;
#endif
    return end;
  }

  void end_all_of(int which) {
    for (std::size_t i = opened_.size(); i-- > 0;) {
      if (opened_[i].home != -1 - which) continue;
      Open open = std::move(opened_[i]);
      opened_.erase(opened_.begin() + static_cast<std::ptrdiff_t>(i));
      end(open);
    }
  }

  /// Destroys one that is suspended, with all its holders.
  void destroy(int thread) {
    const std::vector<int> can = idle();
    if (can.empty()) return;
    const int which = can[static_cast<std::size_t>(pick(static_cast<int>(can.size())))];
    log("t" + std::to_string(thread) + " destroy " + std::to_string(which));
    end_all_of(which);
    coroutines_[static_cast<std::size_t>(which)].handle.destroy();
    model_.coroutines[static_cast<std::size_t>(which)].reset();
  }

  void make_handle(int thread) {
    if (handles_.size() >= 4) {
      const auto unused = std::find_if(handles_.begin(), handles_.end(),
                                       [](const Handle& one) { return one.holder == 0; });
      if (unused == handles_.end()) return;
      log("free");
      custom_labels_free(unused->set);
      handles_.erase(unused);
      return;
    }
    const bool clones = pick(2) == 0;
    log("t" + std::to_string(thread) + (clones ? " clone" : " new"));
    handles_.push_back(
        {clones ? custom_labels_clone(custom_labels_current()) : custom_labels_new(0),
         clones ? model_.on(thread) : Labels{}, 0, false});
  }

  /// In force nowhere, or right here with nothing on top of it.
  bool may_edit(const Handle& one, int thread) {
    if (one.lent || one.holder == 0) return !one.lent;
    const Stack& top = model_.top(thread);
    return !top.empty() && top.back().id == one.holder;
  }

  std::string some_value() {
    return std::string(static_cast<std::size_t>(pick(4) == 0 ? 17 + pick(40) : pick(3)),
                       static_cast<char>('p' + pick(4)));
  }

  Handle* some_handle() {
    if (handles_.empty()) return nullptr;
    auto at = handles_.begin();
    std::advance(at, pick(static_cast<int>(handles_.size())));
    return &*at;
  }

  void edit_handle(int thread) {
    Handle* one = some_handle();
    if (one == nullptr || !may_edit(*one, thread)) return;
    const char* key = names[pick(5)];
    if (pick(4) == 0) {
      log(std::string("delete ") + key);
      custom_labels_delete(one->set, str(key));
      one->labels.erase(key);
    } else {
      const std::string value = some_value();
      log(std::string("set ") + key + "=" + value);
      if (custom_labels_set(one->set, str(key), str(value), nullptr) != 0) wrong_ = "set failed";
      one->labels[key] = value;
    }
    show_in_model(*one);
  }

  /// Replaces one label so often that versions out of use are used again.
  void edit_often(int thread) {
    Handle* one = some_handle();
    if (one == nullptr || !may_edit(*one, thread)) return;
    const char* key = names[pick(5)];
    log(std::string("set often ") + key);
    for (int i = 0; i < 40; ++i) {
      const std::string value = std::to_string(count_ % 10) + static_cast<char>('a' + i % 26);
      if (custom_labels_set(one->set, str(key), str(value), nullptr) != 0) wrong_ = "set failed";
      one->labels[key] = value;
    }
    show_in_model(*one);
  }

  /// Visits the labels in force, with some steps while it does.
  void visit(int thread) {
    if (depth_ > 2) return;
    log("t" + std::to_string(thread) + " visit");
    const Labels want = model_.on(thread);
    Labels have;
    labels::for_each([&](std::string_view key, std::string_view value) {
      if (have.empty()) {
        ++depth_;
        edit_often(thread);
        steps_on_top(thread, ++ids_);
        --depth_;
      }
      have.emplace(key, value);
    });
    log("visited");
    if (have != want && wrong_.empty()) wrong_ = "a visit found other labels";
  }

  void show_in_model(const Handle& one) {
    const auto in = [&](Stack& stack) {
      for (Holder& holder : stack) {
        if (one.holder != 0 && holder.id == one.holder) holder.labels = one.labels;
      }
    };
    for (Stack& stack : model_.threads) in(stack);
    for (auto& coroutine : model_.coroutines) {
      if (coroutine) in(coroutine->own);
    }
  }

  /// Some steps on top of what was put in force for them: what they open here ends, too.
  void steps_on_top(int thread, int holder) {
    const int before = sealed_[thread];
    sealed_[thread] = holder;
    const int home = here(thread);
    for (int i = pick(5); i > 0; --i) step(thread);
    for (std::size_t i = opened_.size(); i-- > 0;) {
      if (opened_[i].home != home || opened_[i].id < holder) continue;
      Open open = std::move(opened_[i]);
      opened_.erase(opened_.begin() + static_cast<std::ptrdiff_t>(i));
      end(open);
      check(thread);
    }
    sealed_[thread] = before;
  }

  void use_handle(int thread) {
    Handle* one = some_handle();
    if (one == nullptr || one->holder != 0 || depth_ > 2) return;
    one->holder = ++ids_;
    log("t" + std::to_string(thread) + " replace " + std::to_string(one->holder));
    model_.top(thread).push_back({one->holder, true, one->labels});
    custom_labels_labelset_t* before = custom_labels_replace(one->set);
    check(thread);
    ++depth_;
    steps_on_top(thread, one->holder);
    --depth_;
    log("t" + std::to_string(thread) + " replace back");
    if (custom_labels_replace(before) != one->set && wrong_.empty())
      wrong_ = "another set was in force";
    model_.end(one->holder);
    one->holder = 0;
  }

  void run_with_labels(int thread) {
    custom_labels_labelset_t* set = custom_labels_current();
    Handle* lent = nullptr;
    for (Handle& one : handles_) {
      if (one.set == set) lent = &one;
    }
    if (depth_ > 2 || (lent != nullptr && !may_edit(*lent, thread))) return;
    const std::string values[] = {some_value(), some_value()};
    const char* const used[] = {names[pick(5)], names[pick(5)]};
    custom_labels_label_t added[] = {{str(used[0]), str(values[0])},
                                     {str(used[1]), str(values[1])}};
    const int id = ++ids_;
    log("t" + std::to_string(thread) + " run_with " + std::to_string(id));
    Labels before;
    if (lent != nullptr) {
      before = lent->labels;
      lent->lent = true;
      for (int i = 0; i < 2; ++i) lent->labels[used[i]] = values[i];
      show_in_model(*lent);
    } else {
      Labels labels;
      for (int i = 0; i < 2; ++i) labels[used[i]] = values[i];
      model_.top(thread).push_back({id, false, labels});
    }
    std::function<void()> job = [&] {
      check(thread);
      ++depth_;
      steps_on_top(thread, id);
      --depth_;
    };
    const auto callback = [](void* data) -> void* {
      (*static_cast<std::function<void()>*>(data))();
      return nullptr;
    };
    if (custom_labels_run_with(set, added, 2, callback, &job, nullptr) != 0 && wrong_.empty())
      wrong_ = "run_with failed";
    if (lent != nullptr) {
      lent->lent = false;
      lent->labels = before;
      show_in_model(*lent);
    } else {
      model_.end(id);
    }
  }

  void churn() {
    for (int i = 0; i < 40; ++i) Scope scope{keys[0], "churn " + std::to_string(count_ * 64 + i)};
  }

  void on_other() {
    other_->run([&] {
      check(1);
      for (int i = pick(5); i > 0; --i) step(1);
    });
  }

  void finish() {
    const auto end_on = [&](int thread) {
      while (true) {
        std::vector<std::size_t> can;
        for (std::size_t i = 0; i < opened_.size(); ++i) {
          if (opened_[i].home == thread) can.push_back(i);
        }
        if (can.empty()) break;
        const std::size_t at = can[static_cast<std::size_t>(pick(static_cast<int>(can.size())))];
        Open open = std::move(opened_[at]);
        opened_.erase(opened_.begin() + static_cast<std::ptrdiff_t>(at));
        log("end " + std::to_string(open.id));
        end(open);
        check(thread);
      }
    };
    for (const int which : idle()) {
      end_all_of(which);
      coroutines_[static_cast<std::size_t>(which)].handle.destroy();
      model_.coroutines[static_cast<std::size_t>(which)].reset();
    }
    end_on(0);
    if (other_ != nullptr) {
      other_->run([&] {
        end_on(1);
        if (wrong_.empty() && test::v1_slot != nullptr)
          wrong_ = "the other thread shows a set at the end";
      });
    }
    captured_.clear();
    for (const Handle& one : handles_) custom_labels_free(one.set);
    handles_.clear();
    if (wrong_.empty() && test::v1_slot != nullptr) wrong_ = "a set is shown at the end";
  }

  std::mt19937_64 random_;
  Other* other_;
  bool records_;
  Model model_;
  std::vector<Open> opened_;
  std::vector<Captured> captured_;
  std::vector<Worker> coroutines_;
  std::list<Handle> handles_;
  int sealed_[2] = {0, 0};  ///< holders from before this one must not end on the thread
  int depth_ = 0;           ///< of handles put in force within each other
  int ids_ = 0, count_ = 0;
  std::string wrong_, text_;
};

TEST(Programs, ShowWhatTheModelSays) {
  const char* said = std::getenv("VITRINE_PROGRAMS");
  const char* from = std::getenv("VITRINE_SEED");
  const std::uint64_t programs = said != nullptr ? std::strtoull(said, nullptr, 10) : 20'000;
  const std::uint64_t first = from != nullptr ? std::strtoull(from, nullptr, 10) : 1;
  std::unique_ptr<Other> other = std::make_unique<Other>();
  bool records = false;
  for (std::uint64_t seed = first; seed < first + programs; ++seed) {
    // Every other thousand; with a new thread, as the header has it.
    const bool wanted = seed / 1000 % 2 == 1 && custom_labels_publish_thread_context(1) == 0;
    if (!wanted) custom_labels_publish_thread_context(0);
    if (wanted != records) other = std::make_unique<Other>();
    records = wanted;
    const std::string wrong = Program(seed, seed % 16 == 0 ? other.get() : nullptr, records).run();
    ASSERT_EQ(wrong, "") << "program " << seed << ": VITRINE_SEED=" << seed
                         << " VITRINE_PROGRAMS=1";
  }
}

}  // namespace
}  // namespace vitrine
