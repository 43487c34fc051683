// A signal handler that opens scopes of its own, at every single instruction of the library: the
// CPU single-steps (trap flag), and each SIGTRAP is one more moment. What depends on luck elsewhere
// is exhaustive here.
#include <customlabels.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <vitrine/labels.hpp>

#include "publish/own_slot.hpp"

#if defined(__x86_64__)

namespace vitrine {
namespace {

using labels::Key;
using labels::Scope;

const Key tenant{"tenant"}, route{"route"}, inside{"inside"};

inline void step_on() {
  __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
}
inline void step_off() {
  __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
}

struct Seen {
  long moments = 0;
  long wrong = 0;
  void (*work)(Seen&) = nullptr;
};
Seen seen;

void on_step(int) {
  ++seen.moments;
  const auto* before = test::v1_slot;
  seen.work(seen);
  if (test::v1_slot != before) ++seen.wrong;
}

class SingleStep : public testing::Test {
 protected:
  void SetUp() override {
    struct sigaction action {};
    action.sa_handler = on_step;
    sigaction(SIGTRAP, &action, &before_);
    seen = {};
  }
  void TearDown() override { sigaction(SIGTRAP, &before_, nullptr); }

 private:
  struct sigaction before_ {};
};

/// Opens enough scopes, of changing values, to turn pages now and then.
void open_scopes(Seen& s) {
  static unsigned number = 0;
  char value[12];
  std::size_t size = 0;
  for (unsigned n = ++number; n != 0; n /= 10) value[size++] = static_cast<char>('0' + n % 10);
  Scope one{inside, std::string_view(value, size)};
  Scope two{{route, "handler"}, {tenant, std::string_view(value, size)}};
  if (!one.ok() || !two.ok()) ++s.wrong;
  const auto got = labels::get(inside);
  if (!got || *got != std::string_view(value, size)) ++s.wrong;
}

bool in_force(std::string_view key, std::string_view value) {
  const auto* label = custom_labels_get(
      custom_labels_current(), {key.size(), reinterpret_cast<const unsigned char*>(key.data())});
  return label != nullptr && label->value.len == value.size() &&
         std::memcmp(label->value.buf, value.data(), value.size()) == 0;
}

TEST_F(SingleStep, ScopesOpenedByHandlersDisturbNone) {
  { Scope first{tenant, "first"}; }
  seen.work = open_scopes;
  static char values[64][16];
  for (int i = 0; i < 64; ++i) std::snprintf(values[i], sizeof values[i], "value %d", i);
  for (int i = 0; i < 64; ++i) {
    step_on();
    {
      Scope one{tenant, values[i]};
      {
        Scope two{{route, values[i]}, {tenant, values[63 - i]}};
        step_off();
        ASSERT_TRUE(one.ok() && two.ok());
        ASSERT_TRUE(in_force("tenant", values[63 - i]));
        ASSERT_TRUE(in_force("route", values[i]));
        ASSERT_EQ(custom_labels_count(custom_labels_current()), 2U);
        step_on();
      }
      step_off();
      ASSERT_TRUE(in_force("tenant", values[i]));
      step_on();
    }
    step_off();
  }
  EXPECT_EQ(test::v1_slot, nullptr);
  EXPECT_EQ(seen.wrong, 0);
  EXPECT_GT(seen.moments, 20'000);
}

custom_labels_labelset_t* shared_set;

void change_the_set(Seen& s) {
  static unsigned char number = 0;
  const unsigned char value[1] = {++number};
  const custom_labels_string_t key{7, reinterpret_cast<const unsigned char*>("handler")};
  if (custom_labels_set(shared_set, key, {1, value}, nullptr) != 0) ++s.wrong;
  const auto* label = custom_labels_get(shared_set, key);
  if (label == nullptr || label->value.len != 1 || *label->value.buf != number) ++s.wrong;
}

// Upstream defect 3, at every instruction.
TEST_F(SingleStep, HandlersThatChangeTheSameHandleLoseNothing) {
  shared_set = custom_labels_new(0);
  custom_labels_replace(shared_set);
  seen.work = change_the_set;
  for (int i = 0; i < 24; ++i) {
    char text[3] = {'k', static_cast<char>('a' + i), 0};
    const custom_labels_string_t key{2, reinterpret_cast<const unsigned char*>(text)};
    step_on();
    const int error = custom_labels_set(shared_set, key, key, nullptr);
    step_off();
    ASSERT_EQ(error, 0);
    ASSERT_TRUE(in_force(text, text));
    ASSERT_EQ(custom_labels_count(shared_set), static_cast<std::size_t>(i) + 2);
  }
  EXPECT_EQ(test::v1_labels().size(), 25U);
  EXPECT_EQ(seen.wrong, 0);
  EXPECT_GT(seen.moments, 10'000);
  custom_labels_replace(nullptr);
  custom_labels_free(shared_set);
}

}  // namespace
}  // namespace vitrine

#endif
