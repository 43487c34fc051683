// A signal handler that uses the library, at every single instruction of what it interrupts.
#include <customlabels.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
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

}  // namespace
}  // namespace vitrine

#endif
