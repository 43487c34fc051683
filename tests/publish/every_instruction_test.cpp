// A signal handler that uses the library, at every single instruction of what it interrupts.
#include <customlabels.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <thread>
#include <vitrine/labels.hpp>

#include "publish/own_slot.hpp"
#include "publish/stepping.hpp"

#if defined(__x86_64__)

namespace vitrine {
namespace {

using labels::Key;
using labels::Scope;

const Key tenant{"tenant"}, route{"route"}, inside{"inside"};

long wrong;
void (*work)();

void step_on() {
  test::Stepping::on();
}
void step_off() {
  test::Stepping::off();
}

/// The handler leaves in force what was.
void work_unseen() {
  const auto* before = test::v1_slot;
  work();
  if (test::v1_slot != before) ++wrong;
}

template <class F>
long at_every_instruction(void (*handler)(), F&& round) {
  work = handler;
  wrong = 0;
  const long met = test::Stepping::each(work_unseen, round);
  EXPECT_EQ(wrong, 0);
  return met;
}

/// What a handler leaves behind must not be overwritten by what it interrupted.
labels::Set left_behind;
char left_value[12];
std::size_t left_size;

/// Opens scopes of changing values.
void open_scopes() {
  static unsigned number = 0;
  left_size = 0;
  for (unsigned n = ++number; n != 0; n /= 10)
    left_value[left_size++] = static_cast<char>('0' + n % 10);
  const std::string_view value(left_value, left_size);
  Scope one{inside, value};
  Scope two{{route, "handler"}, {tenant, value}};
  if (!one.ok() || !two.ok() || labels::get(inside) != value) ++wrong;
  left_behind = labels::capture();
}

bool handler_kept_its_set() {
  const std::string_view value(left_value, left_size);
  return left_size == 0 || (left_behind.get(inside) == value && left_behind.get(tenant) == value);
}

bool in_force(std::string_view key, std::string_view value) {
  const auto* label = custom_labels_get(
      custom_labels_current(), {key.size(), reinterpret_cast<const unsigned char*>(key.data())});
  return label != nullptr && label->value.len == value.size() &&
         std::memcmp(label->value.buf, value.data(), value.size()) == 0;
}

TEST(EveryInstruction, ScopesOpenedByHandlersDisturbNone) {
  { Scope first{tenant, "first"}; }
  const long instructions = at_every_instruction(open_scopes, [](long number) {
    char text[16];
    const auto size = static_cast<std::size_t>(std::snprintf(text, sizeof text, "%ld", number));
    const std::string_view value(text, size);
    step_on();
    {
      Scope one{tenant, value};
      {
        Scope two{{route, value}, {tenant, "inner"}};
        step_off();
        ASSERT_TRUE(one.ok() && two.ok());
        ASSERT_TRUE(in_force("tenant", "inner"));
        ASSERT_TRUE(in_force("route", value));
        ASSERT_EQ(custom_labels_count(custom_labels_current()), 2U);
        step_on();
      }
      step_off();
      ASSERT_TRUE(in_force("tenant", value));
      ASSERT_TRUE(handler_kept_its_set());
      step_on();
    }
    step_off();
    ASSERT_EQ(test::v1_slot, nullptr);
    ASSERT_TRUE(handler_kept_its_set());
  });
  EXPECT_GT(instructions, 200);
}

/// Leaves the page that the interrupted code is filling, whatever it was about to do there.
void turn_pages() {
  for (int i = 0; i < 40; ++i) {
    open_scopes();
    const labels::Set kept = labels::capture();
  }
}

TEST(EveryInstruction, HandlersTurnThePage) {
  const long instructions = at_every_instruction(turn_pages, [](long number) {
    char text[16];
    const auto size = static_cast<std::size_t>(std::snprintf(text, sizeof text, "t%ld", number));
    step_on();
    {
      Scope one{tenant, std::string_view(text, size)};
      const labels::Set kept = labels::capture();
      step_off();
      ASSERT_TRUE(in_force("tenant", std::string_view(text, size)));
      turn_pages();
      ASSERT_TRUE(in_force("tenant", std::string_view(text, size)));
      ASSERT_EQ(kept.get(tenant), std::string_view(text, size));
      step_on();
    }
    step_off();
    ASSERT_EQ(test::v1_slot, nullptr);
    ASSERT_TRUE(handler_kept_its_set());
  });
  EXPECT_GT(instructions, 50);  // that it was stepped through at all
}

/// A scope that a handler leaves open, and the set that it put in force.
alignas(Scope) unsigned char open_scope[sizeof(Scope)];
custom_labels_labelset_t* open_set;
std::string_view open_value;

void leave_a_scope_open() {
  if (open_set != nullptr) return;
  const auto* scope = ::new (open_scope) Scope{inside, open_value};
  if (!scope->ok()) ++wrong;
  open_set = const_cast<custom_labels_labelset_t*>(custom_labels_current());
}

/// The page of a set that is too large for many to fit into one.
std::uintptr_t page_of_another_large_set() {
  static unsigned number = 0;
  char text[200] = {};
  const int size = std::snprintf(text, sizeof text, "%u", ++number);
  std::memset(text + size, '.', sizeof text - static_cast<std::size_t>(size));
  const Scope scope{tenant, std::string_view(text, sizeof text)};
  if (!scope.ok()) ++wrong;
  return reinterpret_cast<std::uintptr_t>(custom_labels_current()) &
         ~std::uintptr_t{labels::detail::small_page_bytes - 1};
}

/// Until they are in another page: how many were in the one before.
int leave_page() {
  const std::uintptr_t page = page_of_another_large_set();
  int sets = 1;
  while (page_of_another_large_set() == page) ++sets;
  return sets;
}

// It is found by the memo in the page that the interrupted code is about to use again, and that nothing referred to.
TEST(EveryInstruction, ASetThatAHandlerLeavesInForceIsNotOverwritten) {
  for (int i = 0; i < 2000; ++i) leave_page();  // as many pages as a thread takes
  leave_page();
  const int whole_page = leave_page() + 1;  // with the one that was found to be there
  work = leave_a_scope_open;
  wrong = 0;
  const long instructions = test::Stepping::each(leave_a_scope_open, [&](long number) {
    char text[16];
    const auto size = static_cast<std::size_t>(std::snprintf(text, sizeof text, "o%ld", number));
    open_value = {text, size};
    leave_page();
    { const Scope remembered{inside, open_value}; }
    leave_page();
    for (int i = 2; i < whole_page; ++i) page_of_another_large_set();
    open_set = nullptr;
    step_on();
    page_of_another_large_set();
    page_of_another_large_set();
    step_off();
    for (int i = 0; i < 2 * whole_page; ++i) page_of_another_large_set();
    if (open_set == nullptr) return;  // not met in this round
    const auto* label =
        custom_labels_get(open_set, {6, reinterpret_cast<const unsigned char*>("inside")});
    ASSERT_NE(label, nullptr);
    ASSERT_EQ(std::string_view(reinterpret_cast<const char*>(label->value.buf), label->value.len),
              open_value);
    std::launder(reinterpret_cast<Scope*>(open_scope))->~Scope();
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(instructions, 200);
}

custom_labels_labelset_t* shared_set;

void change_the_set() {
  static unsigned char number = 0;
  const unsigned char value[1] = {++number};
  const custom_labels_string_t key{7, reinterpret_cast<const unsigned char*>("handler")};
  if (custom_labels_set(shared_set, key, {1, value}, nullptr) != 0) ++wrong;
  const auto* label = custom_labels_get(shared_set, key);
  if (label == nullptr || label->value.len != 1 || *label->value.buf != number) ++wrong;
}

// Upstream defect 3, at every instruction.
TEST(EveryInstruction, HandlersThatChangeTheSameHandleLoseNothing) {
  const long instructions = at_every_instruction(change_the_set, [](long) {
    shared_set = custom_labels_new(0);
    custom_labels_replace(shared_set);
    // Four slots: the handler's label or ours makes the set grow.
    for (const char* name : {"a", "b", "c", "d"}) {
      const custom_labels_string_t key{1, reinterpret_cast<const unsigned char*>(name)};
      step_on();
      const int error = custom_labels_set(shared_set, key, key, nullptr);
      step_off();
      ASSERT_EQ(error, 0);
      ASSERT_TRUE(in_force(name, name));
    }
    const std::size_t count = custom_labels_count(shared_set);
    ASSERT_TRUE(count == 4 || count == 5);
    ASSERT_EQ(test::v1_labels().size(), count);
    custom_labels_replace(nullptr);
    custom_labels_free(shared_set);
  });
  EXPECT_GT(instructions, 400);
}

/// Replaces both labels of the pair at once, and often enough for cells to be used again.
void change_the_pair() {
  static unsigned number = 0;
  for (int i = 0; i < 50; ++i) {
    const unsigned char value[24] = {static_cast<unsigned char>('a' + number++ % 26)};
    const std::size_t size = 1 + number % 2 * 20;
    unsigned char text[24];
    for (unsigned char& c : text) c = value[0];
    custom_labels_label_t pair[] = {
        {{1, reinterpret_cast<const unsigned char*>("a")}, {size, text}},
        {{1, reinterpret_cast<const unsigned char*>("b")}, {size, text}}};
    if (custom_labels_run_with(
            shared_set, pair, 2, [](void*) -> void* { return nullptr; }, nullptr, nullptr) != 0)
      ++wrong;
    for (const auto& label : pair) {
      if (custom_labels_set(shared_set, label.key, label.value, nullptr) != 0) ++wrong;
    }
  }
}

/// Whole values: of one letter each.
bool is_whole(const custom_labels_labelset_t* set) {
  const auto* v1 = reinterpret_cast<const abi::custom_labels::SetV1*>(set);
  const test::Labels labels = test::labels_at(v1->storage, v1->count);
  if (labels.count("a") == 0 || labels.count("b") == 0) return false;
  if (labels.at("a") != labels.at("b")) return false;  // handlers leave them equal
  for (const auto& [key, value] : labels) {
    if (value.empty() || value.find_first_not_of(value[0]) != std::string::npos) return false;
  }
  return true;
}

void make_shared_set() {
  shared_set = custom_labels_new(0);
  for (const char* name : {"a", "b"}) {
    const custom_labels_string_t key{1, reinterpret_cast<const unsigned char*>(name)};
    const custom_labels_string_t value{
        21, reinterpret_cast<const unsigned char*>("zzzzzzzzzzzzzzzzzzzzz")};  // as large as theirs
    ASSERT_EQ(custom_labels_set(shared_set, key, value, nullptr), 0);
  }
  custom_labels_replace(shared_set);
}

void end_shared_set() {
  custom_labels_replace(nullptr);
  custom_labels_free(shared_set);
}

TEST(EveryInstruction, HandlersChangeAHandleThatIsCloned) {
  const long instructions = at_every_instruction(change_the_pair, [](long) {
    make_shared_set();
    step_on();
    custom_labels_labelset_t* copy = custom_labels_clone(shared_set);
    step_off();
    ASSERT_NE(copy, nullptr);
    ASSERT_TRUE(is_whole(copy));
    custom_labels_free(copy);
    end_shared_set();
  });
  EXPECT_GT(instructions, 100);
}

TEST(EveryInstruction, HandlersChangeAHandleBelowAScope) {
  const long instructions = at_every_instruction(change_the_pair, [](long) {
    make_shared_set();
    step_on();
    {
      const Scope scope{inside, "x"};
      step_off();
      ASSERT_TRUE(scope.ok());
      ASSERT_TRUE(is_whole(custom_labels_current()));
      ASSERT_TRUE(in_force("inside", "x"));
      step_on();
    }
    step_off();
    ASSERT_EQ(custom_labels_current(), shared_set);
    end_shared_set();
  });
  EXPECT_GT(instructions, 200);
}

TEST(EveryInstruction, HandlersChangeAHandleThatIsPrintedAndCaptured) {
  const long instructions = at_every_instruction(change_the_pair, [](long) {
    make_shared_set();
    custom_labels_string_t out{0, nullptr};
    step_on();
    const int error = custom_labels_debug_string(shared_set, &out);
    const labels::Set captured = labels::capture();
    step_off();
    ASSERT_EQ(error, 0);
    // {a: xxx, b: xxx}, perhaps the other way round.
    std::size_t letters = 0;
    const unsigned char letter = out.buf[4];
    for (std::size_t i = 0; i + 2 < out.len; ++i) {
      if (out.buf[i] != ':') continue;
      for (std::size_t at = i + 2; out.buf[at] != ',' && out.buf[at] != '}'; ++at, ++letters)
        ASSERT_EQ(out.buf[at], letter);
    }
    ASSERT_EQ(out.len, letters + std::strlen("{a: , b: }"));
    std::free(const_cast<unsigned char*>(out.buf));
    ASSERT_EQ(captured.size(), 2U);
    ASSERT_EQ(captured.get(Key("a")), captured.get(Key("b")));
    end_shared_set();
  });
  EXPECT_GT(instructions, 200);
}

TEST(EveryInstruction, HandlersChangeAHandleInRunWith) {
  const long instructions = at_every_instruction(change_the_pair, [](long) {
    make_shared_set();
    const custom_labels_string_t key{5, reinterpret_cast<const unsigned char*>("route")};
    custom_labels_label_t label{key, {3, reinterpret_cast<const unsigned char*>("xxx")}};
    step_on();
    const int error = custom_labels_run_with(
        shared_set, &label, 1,
        [](void*) -> void* {
          step_off();
          EXPECT_TRUE(in_force("route", "xxx"));
          EXPECT_TRUE(is_whole(shared_set));
          step_on();
          return nullptr;
        },
        nullptr, nullptr);
    step_off();
    ASSERT_EQ(error, 0);
    ASSERT_EQ(custom_labels_count(shared_set), 2U);
    ASSERT_TRUE(is_whole(shared_set));
    end_shared_set();
  });
  EXPECT_GT(instructions, 200);
}

/// Puts a handle of its own in force, and what it found back.
void replace_and_put_back() {
  custom_labels_labelset_t* own = custom_labels_clone(shared_set);
  custom_labels_labelset_t* before = custom_labels_replace(own);
  {
    const Scope scope{inside, "handler"};
    if (!scope.ok()) ++wrong;
  }
  if (custom_labels_replace(before) != own) ++wrong;
  custom_labels_free(own);
}

TEST(EveryInstruction, HandlersReplaceWhileHandlesAreReplacedAndFreed) {
  const long instructions = at_every_instruction(replace_and_put_back, [](long) {
    make_shared_set();
    custom_labels_labelset_t* outer = shared_set;
    step_on();
    custom_labels_labelset_t* inner = custom_labels_clone(outer);
    const custom_labels_labelset_t* before = custom_labels_replace(inner);
    { const Scope scope{tenant, "x"}; }
    const custom_labels_labelset_t* after = custom_labels_replace(outer);
    custom_labels_free(inner);
    step_off();
    ASSERT_EQ(before, outer);
    ASSERT_EQ(after, inner);
    ASSERT_EQ(custom_labels_current(), outer);
    ASSERT_TRUE(is_whole(outer));
    end_shared_set();
  });
  EXPECT_GT(instructions, 300);
}

/// Some of them fail when the thread's labels are gone.
void open_scopes_or_not() {
  const Scope one{inside, "x"};
  const Scope two{{route, "handler"}, {tenant, "y"}};
  const labels::Set kept = labels::capture();
  if (one.ok() && labels::get(inside) != "x") ++wrong;
  custom_labels_labelset_t* own = custom_labels_clone(nullptr);
  custom_labels_labelset_t* before = custom_labels_replace(own);
  custom_labels_replace(before);
  custom_labels_free(own);
}

bool slot_was_empty;

TEST(EveryInstruction, HandlersOpenScopesWhileTheThreadEnds) {
  static pthread_key_t later;  // than the library's: its destructor runs after that one
  const auto after = [](void*) {
    step_off();
    slot_was_empty = test::v1_slot == nullptr;
  };
  ASSERT_EQ(pthread_key_create(&later, after), 0);
  make_shared_set();
  const long instructions = at_every_instruction(open_scopes_or_not, [](long) {
    slot_was_empty = false;
    std::thread([] {
      pthread_setspecific(later, &later);
      custom_labels_replace(shared_set);
      // Still open at the end.
      alignas(std::optional<Scope>) static unsigned char scope[sizeof(std::optional<Scope>)];
      alignas(std::optional<labels::Attach>) static unsigned char
          attach[sizeof(std::optional<labels::Attach>)];
      ::new (scope) std::optional<Scope>(std::in_place, tenant, "open");
      ::new (attach) std::optional<labels::Attach>(std::in_place, labels::capture());
      step_on();
    }).join();
    ASSERT_TRUE(slot_was_empty);
    ASSERT_TRUE(is_whole(shared_set));
  });
  end_shared_set();
  pthread_key_delete(later);
  EXPECT_GT(instructions, 100);
}

/// The thread's own, as long as it lives.
custom_labels_labelset_t* own_set;

/// Reads, edits and puts in force the thread's own set, whatever is left of the thread.
void use_own_set() {
  const custom_labels_string_t key{6, reinterpret_cast<const unsigned char*>("tenant")};
  const auto* label = custom_labels_get(own_set, key);
  if (label == nullptr || label->value.len != 4) ++wrong;
  const custom_labels_string_t value{4, reinterpret_cast<const unsigned char*>("acme")};
  const int error = custom_labels_set(own_set, key, value, nullptr);
  if (error != 0 && error != ENOMEM) ++wrong;  // ENOMEM: the thread has no memory any more
  custom_labels_labelset_t* before = custom_labels_replace(own_set);
  custom_labels_replace(before);
}

TEST(EveryInstruction, HandlersUseTheThreadsOwnSetWhileItEnds) {
  static pthread_key_t later;  // as above
  ASSERT_EQ(pthread_key_create(&later, [](void*) { step_off(); }), 0);
  const long instructions = at_every_instruction(use_own_set, [](long) {
    std::thread([] {
      pthread_setspecific(later, &later);
      own_set = custom_labels_new(1);
      const custom_labels_string_t key{6, reinterpret_cast<const unsigned char*>("tenant")};
      const custom_labels_string_t value{4, reinterpret_cast<const unsigned char*>("acme")};
      custom_labels_set(own_set, key, value, nullptr);
      custom_labels_replace(own_set);
      custom_labels_get(own_set, key);
      step_on();
    }).join();
    custom_labels_free(own_set);
  });
  pthread_key_delete(later);
  EXPECT_GT(instructions, 50);
}

}  // namespace
}  // namespace vitrine

#endif
