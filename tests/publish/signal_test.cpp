// Signal handlers that use the library on the thread they interrupt. The interrupted code is inside
// the library nearly all the time, so they come at every point of it.
#include <customlabels.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vitrine/labels.hpp>

#include "publish/own_slot.hpp"

namespace vitrine {
namespace {

using labels::Key;
using labels::Scope;
using test::Labels;

const Key tenant{"tenant"}, pair_a{"a"}, pair_b{"b"}, inside{"inside"};

custom_labels_string_t str(std::string_view text) {
  return {text.size(), reinterpret_cast<const unsigned char*>(text.data())};
}

/// Interrupts the running thread again and again, from another one.
class Interrupter {
 public:
  explicit Interrupter(void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    sigaction(SIGUSR1, &action, &before_);
    thread_ = std::thread([this, target = pthread_self()] {
      while (!stop_) {
        pthread_kill(target, SIGUSR1);
        const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(15);
        while (std::chrono::steady_clock::now() < until) {
        }
      }
    });
  }
  ~Interrupter() {
    stop_ = true;
    thread_.join();
    sigaction(SIGUSR1, &before_, nullptr);
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
  struct sigaction before_ {};
};

// What the handler saw; it must not use anything that allocates.
std::atomic<long> handled, mixed, lost;

constexpr long enough = 500;

/// Until the handler came often enough.
template <class F>
void repeat(F&& step) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (long i = 0; handled < enough && std::chrono::steady_clock::now() < until; ++i) {
    for (int j = 0; j < 64; ++j) step(i * 64 + j);
  }
}

bool equal(const abi::custom_labels::String& a, const abi::custom_labels::String& b) {
  return a.len == b.len &&
         std::memcmp(reinterpret_cast<void*>(a.buf), reinterpret_cast<void*>(b.buf), a.len) == 0;
}

/// The pair must be equal: both labels change together.
void check_pair(int) {
  handled = handled + 1;
  const auto* set = test::v1_slot;
  if (set == nullptr) return;
  const auto* label = reinterpret_cast<const abi::custom_labels::Label*>(set->storage);
  const abi::custom_labels::String* values[2] = {nullptr, nullptr};
  for (std::uint64_t i = 0; i < set->count; ++i) {
    if (label[i].key.buf == 0 || label[i].key.len != 1) continue;
    const char name = *reinterpret_cast<const char*>(label[i].key.buf);
    if (name == 'a' && values[0] == nullptr) values[0] = &label[i].value;
    if (name == 'b' && values[1] == nullptr) values[1] = &label[i].value;
  }
  const bool both_or_none = (values[0] == nullptr) == (values[1] == nullptr);
  if (!both_or_none || (values[0] != nullptr && !equal(*values[0], *values[1]))) mixed = mixed + 1;
}

// Upstream defect 4: two labels cannot change together.
TEST(Signals, NoMixedPairInAScope) {
  handled = 0;
  mixed = 0;
  {
    Interrupter interrupter(check_pair);
    Scope outer{tenant, "acme"};
    repeat([](long i) {
      const std::string value = std::to_string(i);
      Scope scope{{pair_a, value}, {pair_b, value}};
    });
  }
  EXPECT_GE(handled, enough);
  EXPECT_EQ(mixed, 0);
}

TEST(Signals, NoMixedPairInRunWith) {
  handled = 0;
  mixed = 0;
  custom_labels_labelset_t* set = custom_labels_new(0);
  custom_labels_replace(set);
  {
    Interrupter interrupter(check_pair);
    repeat([set](long i) {
      const std::string value = std::to_string(i);
      custom_labels_label_t labels[] = {{str("a"), str(value)}, {str("b"), str(value)}};
      custom_labels_run_with(
          set, labels, 2, [](void*) -> void* { return nullptr; }, nullptr, nullptr);
    });
  }
  EXPECT_GE(handled, enough);
  EXPECT_EQ(mixed, 0);
  custom_labels_replace(nullptr);
  custom_labels_free(set);
}

void open_scopes(int) {
  handled = handled + 1;
  const auto* before = test::v1_slot;
  {
    Scope scope{{inside, "handler"}};
    const labels::Set captured = labels::capture();
    Scope nested{pair_a, "x"};
    if (!scope.ok() || !nested.ok() || labels::get(inside) != "handler") lost = lost + 1;
    if (captured.get(inside) != "handler") lost = lost + 1;
  }
  if (test::v1_slot != before) lost = lost + 1;
}

TEST(Signals, HandlersOpenScopesWhileSetsAreMade) {
  handled = 0;
  lost = 0;
  long wrong = 0;
  {
    Interrupter interrupter(open_scopes);
    repeat([&](long i) {
      const std::string value = std::to_string(i);
      Scope scope{tenant, value};
      const labels::Set captured = labels::capture();
      Scope inner{pair_b, value};
      if (labels::get(tenant) != value || labels::get(pair_b) != value ||
          captured.get(tenant) != value || labels::get(inside).has_value())
        ++wrong;
    });
  }
  EXPECT_GE(handled, enough);
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(test::v1_slot, nullptr);
}

custom_labels_labelset_t* shared_set;
std::atomic<unsigned long> handler_number;
std::atomic<int> handler_errors;

void change_the_same_set(int) {
  handled = handled + 1;
  handler_number = handler_number + 1;
  char text[24];
  std::size_t size = 0;
  for (unsigned long n = handler_number; n != 0; n /= 10)
    text[size++] = static_cast<char>('0' + n % 10);
  if (custom_labels_set(shared_set, str("handler"), {size, reinterpret_cast<unsigned char*>(text)},
                        nullptr) != 0)
    handler_errors = handler_errors + 1;
  // Ours must be there right away, whatever was interrupted.
  const auto* label = custom_labels_get(shared_set, str("handler"));
  if (label == nullptr || label->value.len != size ||
      std::memcmp(label->value.buf, text, size) != 0)
    lost = lost + 1;
}

// Upstream defect 3: a handler that changes the set that is being changed corrupts it.
TEST(Signals, HandlersChangeTheSetThatIsBeingChanged) {
  handled = 0;
  lost = 0;
  handler_errors = 0;
  handler_number = 0;
  shared_set = custom_labels_new(0);
  custom_labels_replace(shared_set);
  long wrong = 0;
  {
    Interrupter interrupter(change_the_same_set);
    repeat([&](long i) {
      const std::string key = "k" + std::to_string(i % 30), value = std::to_string(i);
      if (custom_labels_set(shared_set, str(key), str(value), nullptr) != 0) ++wrong;
      const auto* label = custom_labels_get(shared_set, str(key));
      // A handler may swap the set between the two calls; the label stays what we made it.
      if (label == nullptr || label->value.len != value.size() ||
          std::memcmp(label->value.buf, value.data(), value.size()) != 0)
        ++wrong;
      if (i % 7 == 0) custom_labels_delete(shared_set, str(key));
    });
  }
  EXPECT_GE(handled, enough);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(handler_errors, 0);
  // No duplicate keys, and the last change of the handler is there.
  EXPECT_EQ(test::v1_labels().size(), custom_labels_count(shared_set));
  std::string last = test::v1_labels().at("handler");
  EXPECT_EQ(std::string(last.rbegin(), last.rend()), std::to_string(handler_number));
  custom_labels_replace(nullptr);
  custom_labels_free(shared_set);
}

}  // namespace
}  // namespace vitrine
