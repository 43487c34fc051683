// A reader of a handle is interrupted at each of its instructions, and then at each one that follows, by
// code that replaces the version it reads again and again: in a signal handler, and on the thread that
// the handle belongs to. What it reads must be one version: the two labels are always equal in each.
#include <customlabels.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <vitrine/labels.hpp>

#include "publish/own_slot.hpp"
#include "publish/stepping.hpp"

#if defined(__x86_64__)

namespace vitrine {
namespace {

using labels::Key;
using test::Stepping;

const Key first{"a"}, second{"b"};
custom_labels_labelset_t* shared;

custom_labels_string_t text(std::string_view from) {
  return {from.size(), reinterpret_cast<const unsigned char*>(from.data())};
}

/// Gives both labels another value, often enough for versions to be used again. Between the two
/// edits they differ by one.
void replace_versions() {
  static unsigned number = 0;
  for (int i = 0; i < 20; ++i) {
    char value[16];
    const int size = std::snprintf(value, sizeof value, "%u", 1'000'000 + ++number);
    const std::string_view whole(value, static_cast<std::size_t>(size));
    custom_labels_set(shared, text("a"), text(whole), nullptr);
    custom_labels_set(shared, text("b"), text(whole), nullptr);
  }
}

void make_shared() {
  shared = custom_labels_new(0);
  custom_labels_set(shared, text("a"), text("0000000"), nullptr);
  custom_labels_set(shared, text("b"), text("0000000"), nullptr);
  replace_versions();
}

/// The handle belongs to another thread, which edits it when it is asked to.
class Owner {
 public:
  Owner() : thread_([this] { loop(); }) { wait(); }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() {
    last_ = true;
    run();
    thread_.join();
  }
  void run() {
    busy_.store(true);
    busy_.notify_one();
    wait();
  }

 private:
  void wait() {
    while (busy_.load()) busy_.wait(true);
  }
  void loop() {
    make_shared();
    while (true) {
      busy_.store(false);
      busy_.notify_one();
      busy_.wait(false);
      if (last_) break;
      replace_versions();
    }
    custom_labels_free(shared);
    busy_.store(false);
    busy_.notify_one();
  }

  std::atomic<bool> busy_{true};
  bool last_ = false;
  std::thread thread_;
};
Owner* owner;

void ask_owner() {
  owner->run();
}

/// Reads both labels; false: they are not of one version.
using Reader = bool (*)();

/// Of another handle, which nobody changes.
bool are_equal(const custom_labels_labelset_t* set) {
  const auto* v1 = reinterpret_cast<const abi::custom_labels::SetV1*>(set);
  const auto* label = reinterpret_cast<const custom_labels_label_t*>(v1->storage);
  return v1->count == 2 && label[0].value.len == label[1].value.len &&
         std::memcmp(label[0].value.buf, label[1].value.buf, label[0].value.len) == 0;
}

bool clones() {
  Stepping::on();
  custom_labels_labelset_t* copy = custom_labels_clone(shared);
  Stepping::off();
  const bool good = are_equal(copy);
  custom_labels_free(copy);
  return good;
}

bool captures() {
  Stepping::on();
  const labels::Set set = labels::capture();
  Stepping::off();
  return set.size() == 2 && set.get(first) == set.get(second);
}

/// Compares within the visit: the version is held until its end.
bool visits() {
  std::string_view values[2];
  std::size_t count = 0;
  bool good = true;
  Stepping::on();
  labels::for_each([&](std::string_view, std::string_view value) {
    values[count++ % 2] = value;
    good = good && (count != 2 || values[0] == values[1]);
  });
  Stepping::off();
  return good && count == 2;
}

bool makes_a_string() {
  custom_labels_string_t out{0, nullptr};
  Stepping::on();
  const int error = custom_labels_debug_string(shared, &out);
  Stepping::off();
  if (error != 0) return false;
  const std::string_view all(reinterpret_cast<const char*>(out.buf), out.len);
  const std::size_t b = all.find(", b: ");
  const bool good = all.substr(0, 4) == "{a: " && b != std::string_view::npos &&
                    all.substr(4, b - 4) == all.substr(b + 5, all.size() - b - 6);
  std::free(const_cast<unsigned char*>(out.buf));
  return good;
}

struct Case {
  const char* name;
  Reader reader;
  bool twice;  ///< else it has too many instructions, and holds its version as others do
};

/// In the names of tests.
void PrintTo(const Case& one, std::ostream* out) {
  *out << one.name;
}

class HeldVersions : public testing::TestWithParam<Case> {
 protected:
  static void run(void (*handler)()) {
    const Reader reader = GetParam().reader;
    custom_labels_replace(shared);
    const long once = Stepping::each(handler, [&](long) { ASSERT_TRUE(reader()); });
    const long twice =
        GetParam().twice ? Stepping::each_two(handler, [&](long) { ASSERT_TRUE(reader()); }) : 0;
    custom_labels_replace(nullptr);
    std::printf("interrupted at %ld instructions, and at %ld pairs of them\n", once, twice);
    EXPECT_GT(once, 50);
    EXPECT_TRUE(twice > 1000 || !GetParam().twice);
  }
};

TEST_P(HeldVersions, AreNotUsedAgainByAHandler) {
  make_shared();
  run(replace_versions);
  custom_labels_free(shared);
}

TEST_P(HeldVersions, AreNotUsedAgainByTheirThread) {
  Owner thread;
  owner = &thread;
  run(ask_owner);
}

INSTANTIATE_TEST_SUITE_P(By, HeldVersions,
                         testing::Values(Case{"clone", clones, true},
                                         Case{"capture", captures, false},
                                         Case{"debug_string", makes_a_string, true},
                                         Case{"for_each", visits, true}),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace vitrine

#endif
