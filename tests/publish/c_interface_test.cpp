// The C interface: what each call does, and the defects of the usual writer that it does not have
// (docs/formats/custom-labels.md, "Duties of a writer").
#include <customlabels.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>
#include <vitrine/labels.hpp>

#include "abi/custom_labels.hpp"
#include "publish/own_slot.hpp"
#include "support/child.hpp"

namespace vitrine {
namespace {

using test::Labels;

custom_labels_string_t str(std::string_view text) {
  return {text.size(), reinterpret_cast<const unsigned char*>(text.data())};
}

std::string text(custom_labels_string_t s) {
  return s.buf == nullptr ? "null" : std::string(reinterpret_cast<const char*>(s.buf), s.len);
}

struct Free {
  void operator()(custom_labels_labelset_t* set) const { custom_labels_free(set); }
};
using SetPtr = std::unique_ptr<custom_labels_labelset_t, Free>;

SetPtr make(std::initializer_list<std::pair<const char*, const char*>> labels = {}) {
  SetPtr set(custom_labels_new(0));
  for (const auto& [key, value] : labels)
    EXPECT_EQ(custom_labels_set(set.get(), str(key), str(value), nullptr), 0);
  return set;
}

/// As an observer reads it, by the raw structure.
Labels raw(const custom_labels_labelset_t* set) {
  const auto* v1 = reinterpret_cast<const abi::custom_labels::SetV1*>(set);
  return test::labels_at(v1->storage, v1->count);
}

/// In force for as long as it lives.
struct InForce {
  explicit InForce(custom_labels_labelset_t* set) : before(custom_labels_replace(set)) {}
  InForce(const InForce&) = delete;
  ~InForce() { custom_labels_replace(before); }
  custom_labels_labelset_t* before;
};

TEST(CInterface, AnExistingProgramRelinksUnchanged) {
  const auto result = test::run({VITRINE_C_PROGRAM});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out,
            "before none\n"
            "set {tenant: acme}\n"
            "old acme\n"
            "inside {tenant: umbrella, route: /cart}\n"
            "run_with 0 same\n"
            "after {tenant: umbrella}\n"
            "deleted {}\n"
            "copy {tenant: umbrella}\n"
            "count 0 1\n"
            "get umbrella\n"
            "careful {}\n"
            "back same\n"
            "version 1\n");
}

TEST(CInterface, TheHandleStandsStillWhileItsLabelsChange) {
  const SetPtr set = make();
  const InForce in_force(set.get());
  Labels expected;
  for (int i = 0; i < 100; ++i) {
    const std::string key = "k" + std::to_string(i % 40), value = std::to_string(i);
    ASSERT_EQ(custom_labels_set(set.get(), str(key), str(value), nullptr), 0);
    expected[key] = value;
    ASSERT_EQ(test::v1_labels(), expected);
    ASSERT_EQ(static_cast<const void*>(test::v1_slot), set.get());
    ASSERT_EQ(custom_labels_count(set.get()), expected.size());
  }
  for (int i = 0; i < 40; i += 2) {
    const std::string key = "k" + std::to_string(i);
    custom_labels_delete(set.get(), str(key));
    expected.erase(key);
    ASSERT_EQ(test::v1_labels(), expected);
  }
  custom_labels_delete(set.get(), str("no such key"));
  EXPECT_EQ(custom_labels_get(set.get(), str("no such key")), nullptr);
  EXPECT_EQ(text(custom_labels_get(set.get(), str("k1"))->value), "81");
}

TEST(CInterface, ASetChangesOneValueAndNoOther) {
  // Sets of one size, whose versions are made in the memory of each other's older ones.
  const std::string_view keys[] = {"", "a", "tenant", "a key of 17 bytes"};
  const std::size_t sizes[] = {0, 1, 8, 15, 16, 17, 31, 32, 33, 48, 49, 63, 64, 65};
  struct Known {
    SetPtr set = make();
    Labels labels;
  } all[3];
  std::uint32_t random = 1;
  const auto pick = [&](std::size_t below) {
    random = random * 1664525 + 1013904223;
    return (random >> 8) % below;
  };
  for (int step = 0; step < 100'000; ++step) {
    Known& one = all[pick(3)];
    const std::string_view key = keys[pick(4)];
    // Mostly as long as before: the value alone changes.
    const std::size_t size = pick(8) == 0 ? sizes[pick(14)] : one.labels[std::string(key)].size();
    if (pick(50) == 0) {
      custom_labels_delete(one.set.get(), str(key));
      one.labels.erase(std::string(key));
    } else {
      const std::string value(size, static_cast<char>('a' + step % 26));
      ASSERT_EQ(custom_labels_set(one.set.get(), str(key), str(value), nullptr), 0);
      one.labels[std::string(key)] = value;
    }
    if (pick(20) == 0) one.set.reset(custom_labels_clone(one.set.get()));
    for (const Known& each : all) ASSERT_EQ(raw(each.set.get()), each.labels) << "step " << step;
  }
}

TEST(CInterface, SaysWhatItCannotDo) {
  const SetPtr set = make({{"tenant", "acme"}});
  const std::string long_text(64 * 1024 + 1, 'x');
  EXPECT_EQ(custom_labels_set(nullptr, str("k"), str("v"), nullptr), EINVAL);
  EXPECT_EQ(custom_labels_set(set.get(), {0, nullptr}, str("v"), nullptr), EINVAL);
  EXPECT_EQ(custom_labels_set(set.get(), str("k"), {3, nullptr}, nullptr), EINVAL);
  EXPECT_EQ(custom_labels_set(set.get(), str(long_text), str("v"), nullptr), EMSGSIZE);
  EXPECT_EQ(custom_labels_set(set.get(), str("k"), str(long_text), nullptr), EMSGSIZE);
  EXPECT_EQ(raw(set.get()), (Labels{{"tenant", "acme"}}));
  errno = 0;
  EXPECT_EQ(custom_labels_new(SIZE_MAX), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(custom_labels_count(nullptr), 0U);
  EXPECT_EQ(custom_labels_get(nullptr, str("k")), nullptr);
  custom_labels_free(nullptr);
  const auto callback = [](void*) -> void* { std::abort(); };
  EXPECT_EQ(custom_labels_run_with(set.get(), nullptr, -1, callback, nullptr, nullptr), EINVAL);
  custom_labels_label_t bad{{0, nullptr}, str("v")};
  EXPECT_EQ(custom_labels_run_with(set.get(), &bad, 1, callback, nullptr, nullptr), EINVAL);
}

TEST(CInterface, OldValuesAreTheCallersToFree) {
  const SetPtr set = make();
  custom_labels_string_t old = str("untouched");
  ASSERT_EQ(custom_labels_set(set.get(), str("k"), str("one"), &old), 0);
  EXPECT_EQ(old.buf, nullptr) << "there was none";
  ASSERT_EQ(custom_labels_set(set.get(), str("k"), str(""), &old), 0);
  EXPECT_EQ(text(old), "one");
  std::free(const_cast<unsigned char*>(old.buf));
  ASSERT_EQ(custom_labels_set(set.get(), str("k"), str("two"), &old), 0);
  EXPECT_EQ(text(old), "") << "empty, not absent";
  std::free(const_cast<unsigned char*>(old.buf));
}

TEST(CInterface, CopiesWhatItIsGiven) {
  const SetPtr set = make();
  std::string key = "key", value = "value";
  ASSERT_EQ(custom_labels_set(set.get(), str(key), str(value), nullptr), 0);
  key.assign("xxx");
  value.assign("yyyyy");
  EXPECT_EQ(raw(set.get()), (Labels{{"key", "value"}}));
}

// Upstream defect 1: a label that was absent comes back as an empty one.
TEST(CInterface, RunWithRestoresAbsenceToo) {
  const SetPtr set = make({{"tenant", "acme"}, {"route", "/"}});
  const InForce in_force(set.get());
  custom_labels_label_t labels[] = {{str("route"), str("/cart")}, {str("user"), str("7")}};
  const auto callback = [](void*) -> void* {
    EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}, {"route", "/cart"}, {"user", "7"}}));
    return nullptr;
  };
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(custom_labels_run_with(set.get(), labels, 2, callback, nullptr, nullptr), 0);
    ASSERT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}, {"route", "/"}}));
  }
  EXPECT_EQ(custom_labels_get(set.get(), str("user")), nullptr);
}

TEST(CInterface, RunWithUndoesItsOwnLabelsOnly) {
  const SetPtr set = make({{"tenant", "acme"}});
  custom_labels_label_t labels[] = {{str("tenant"), str("other")}, {str("user"), str("7")}};
  const auto callback = [](void* data) -> void* {
    auto* changed = static_cast<custom_labels_labelset_t*>(data);
    // Enough for the set to grow; and one of the labels that run_with brought.
    for (int i = 0; i < 20; ++i)
      custom_labels_set(changed, str("mine" + std::to_string(i)), str("x"), nullptr);
    custom_labels_set(changed, str("user"), str("changed"), nullptr);
    return nullptr;
  };
  ASSERT_EQ(custom_labels_run_with(set.get(), labels, 2, callback, set.get(), nullptr), 0);
  EXPECT_EQ(text(custom_labels_get(set.get(), str("tenant"))->value), "acme");
  EXPECT_EQ(custom_labels_get(set.get(), str("user")), nullptr);
  EXPECT_EQ(custom_labels_count(set.get()), 21U);
}

TEST(CInterface, RunWithNests) {
  const SetPtr set = make();
  custom_labels_label_t outer{str("route"), str("/a")}, inner{str("route"), str("/b")};
  struct Context {
    custom_labels_labelset_t* set;
    custom_labels_label_t* inner;
  } context{set.get(), &inner};
  const auto callback = [](void* data) -> void* {
    auto& c = *static_cast<Context*>(data);
    const auto deeper = [](void* d) -> void* {
      EXPECT_EQ(raw(static_cast<Context*>(d)->set), (Labels{{"route", "/b"}}));
      return nullptr;
    };
    EXPECT_EQ(custom_labels_run_with(c.set, c.inner, 1, deeper, data, nullptr), 0);
    EXPECT_EQ(raw(c.set), (Labels{{"route", "/a"}}));
    return nullptr;
  };
  ASSERT_EQ(custom_labels_run_with(set.get(), &outer, 1, callback, &context, nullptr), 0);
  EXPECT_EQ(raw(set.get()), Labels{});
}

TEST(CInterface, ACallbackThatThrowsLeavesTheLabelsAsTheyWere) {
  const SetPtr set = make({{"tenant", "acme"}});
  custom_labels_label_t label{str("route"), str("/")};
  const auto callback = [](void*) -> void* { throw std::runtime_error("out"); };
  EXPECT_THROW(custom_labels_run_with(set.get(), &label, 1, callback, nullptr, nullptr),
               std::runtime_error);
  EXPECT_EQ(raw(set.get()), (Labels{{"tenant", "acme"}}));
}

// Upstream defect 5: bytes that an observer is reading are freed and used again.
TEST(CInterface, AChangeDoesNotTouchWhatAnObserverReads) {
  const SetPtr set = make({{"tenant", "acme"}, {"route", "/cart"}});
  const auto* v1 = reinterpret_cast<const abi::custom_labels::SetV1*>(set.get());
  const std::uint64_t storage = v1->storage, count = v1->count;
  for (int i = 0; i < 10; ++i)
    custom_labels_set(set.get(), str("tenant"), str(std::to_string(i)), nullptr);
  custom_labels_delete(set.get(), str("route"));
  EXPECT_EQ(v1->count, 1U) << "the number of labels";
  EXPECT_EQ(test::labels_at(storage, count), (Labels{{"tenant", "acme"}, {"route", "/cart"}}));
}

// Upstream defect 6: sizes of zero fail, or succeed without effect.
TEST(CInterface, NothingIsAGoodSize) {
  const SetPtr set(custom_labels_new(0));
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(custom_labels_set(set.get(), str("k"), {0, nullptr}, nullptr), 0);
  const auto* label = custom_labels_get(set.get(), str("k"));
  ASSERT_NE(label, nullptr);
  EXPECT_EQ(label->value.len, 0U);
  EXPECT_NE(label->value.buf, nullptr);
  EXPECT_EQ(custom_labels_set(set.get(), str(""), str("empty key"), nullptr), 0);
  EXPECT_EQ(raw(set.get()), (Labels{{"k", ""}, {"", "empty key"}}));
  const SetPtr empty(custom_labels_clone(nullptr));
  EXPECT_EQ(custom_labels_count(empty.get()), 0U);
}

// Upstream defect 10: the version is in writable memory.
TEST(CInterface, TheVersionCannotBeChanged) {
  EXPECT_EQ(custom_labels_abi_version, 1U);
  const auto address = reinterpret_cast<std::uintptr_t>(&custom_labels_abi_version);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char permissions[5] = "";
    ASSERT_EQ(std::sscanf(line.c_str(), "%zx-%zx %4s", &begin, &end, permissions), 3);
    if (address < begin || address >= end) continue;
    EXPECT_EQ(permissions[1], '-') << line;
    return;
  }
  FAIL() << "not mapped";
}

TEST(CInterface, SetsInForceMayBeFreedAnyway) {
  SetPtr set = make({{"tenant", "acme"}});
  custom_labels_replace(set.get());
  set.reset();
  EXPECT_EQ(custom_labels_current(), nullptr);
}

const labels::Key tenant{"tenant"}, route{"route"};

TEST(CInterface, ReadsTheSetsOfScopes) {
  labels::Scope scope{{tenant, "acme"}, {route, "/cart"}};
  custom_labels_labelset_t* set = custom_labels_current();
  EXPECT_EQ(custom_labels_count(set), 2U);
  EXPECT_EQ(text(custom_labels_get(set, str("tenant"))->value), "acme");
  EXPECT_EQ(custom_labels_set(set, str("k"), str("v"), nullptr), EROFS);
  errno = 0;
  custom_labels_delete(set, str("tenant"));
  EXPECT_EQ(errno, EROFS);
  custom_labels_free(set);
  EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}, {"route", "/cart"}}));
  const SetPtr copy(custom_labels_clone(set));
  EXPECT_EQ(custom_labels_set(copy.get(), str("k"), str("v"), nullptr), 0);
  EXPECT_EQ(raw(copy.get()), (Labels{{"tenant", "acme"}, {"route", "/cart"}, {"k", "v"}}));
}

TEST(CInterface, RunWithWorksOnTheSetsOfScopes) {
  custom_labels_label_t labels[] = {{str("route"), str("lost")}, {str("route"), str("/pay")}};
  const auto callback = [](void* data) -> void* {
    *static_cast<Labels*>(data) = test::v1_labels();
    return data;
  };
  Labels seen;
  {
    labels::Scope scope{tenant, "acme"};
    void* out = nullptr;
    ASSERT_EQ(custom_labels_run_with(custom_labels_current(), labels, 2, callback, &seen, &out), 0);
    EXPECT_EQ(out, &seen);
    EXPECT_EQ(seen, (Labels{{"tenant", "acme"}, {"route", "/pay"}}));
    EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}}));
    EXPECT_EQ(custom_labels_run_with(nullptr, labels, 2, callback, &seen, nullptr), EINVAL);
  }
  ASSERT_EQ(custom_labels_run_with(custom_labels_current(), labels, 1, callback, &seen, nullptr),
            0);
  EXPECT_EQ(seen, (Labels{{"route", "lost"}}));
}

TEST(CInterface, AScopeOnTopOfAHandleInheritsItsLabels) {
  const SetPtr set = make({{"tenant", "acme"}, {"route", "/"}});
  const InForce in_force(set.get());
  EXPECT_EQ(labels::get(tenant), "acme");
  {
    labels::Scope scope{route, "/cart"};
    EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}, {"route", "/cart"}}));
    EXPECT_EQ(labels::capture().get(tenant), "acme");
  }
  EXPECT_EQ(custom_labels_current(), set.get());
  EXPECT_EQ(test::record_slot, nullptr) << "no stale record while a handle is in force";
  const labels::Set captured = labels::capture();
  EXPECT_EQ(captured.get(tenant), "acme");
}

TEST(CInterface, AssigningToTheVariableItselfWorks) {
  const SetPtr set = make({{"tenant", "acme"}});
  auto** slot =
      reinterpret_cast<custom_labels_labelset_t**>(const_cast<void*>(labels::slot_address()));
  *slot = set.get();
  EXPECT_EQ(custom_labels_current(), set.get());
  EXPECT_EQ(labels::get(tenant), "acme");
  EXPECT_EQ(custom_labels_replace(nullptr), set.get());
}

// Its 24 bytes are the last that can be read, and there are zeroes or anything before them.
TEST(CInterface, AnotherWritersSetIsPutInForceAsItIs) {
  constexpr std::size_t page = 4096;
  auto* memory = static_cast<char*>(
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(mprotect(memory + page, page, PROT_NONE), 0);
  const custom_labels_label_t label{str("tenant"), str("elsewhere")};
  for (const char around : {'\0', '\1'}) {
    for (const std::size_t bytes_left : {sizeof(abi::custom_labels::SetV1), std::size_t{64}}) {
      std::memset(memory, around, page);
      char* const at = memory + page - bytes_left;
      const abi::custom_labels::SetV1 v1{reinterpret_cast<std::uint64_t>(&label), 1, 1};
      std::memcpy(at, &v1, sizeof v1);
      auto* foreign = reinterpret_cast<custom_labels_labelset_t*>(at);
      const auto check = [&] {
        EXPECT_EQ(custom_labels_replace(foreign), nullptr);
        EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "elsewhere"}}));
        EXPECT_EQ(custom_labels_replace(nullptr), foreign);
        const SetPtr set = make({{"tenant", "acme"}});
        const InForce in_force(set.get());
        EXPECT_EQ(custom_labels_replace(foreign), set.get());
        EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "elsewhere"}}));
        EXPECT_EQ(custom_labels_replace(set.get()), foreign);
        EXPECT_EQ(test::v1_labels(), (Labels{{"tenant", "acme"}}));
      };
      std::thread(check).join();  // at first, without any memory of its own
      check();
    }
  }
  munmap(memory, 2 * page);
}

TEST(CInterface, MoreLabelsThanFitOnTopOfNothingAreTooMany) {
  const std::vector<custom_labels_label_t> labels(11'000, {str("one key"), str("value")});
  bool called = false;
  const auto callback = [](void* data) { return *static_cast<bool*>(data) = true, data; };
  EXPECT_EQ(custom_labels_run_with(nullptr, const_cast<custom_labels_label_t*>(labels.data()),
                                   11'000, callback, &called, nullptr),
            EMSGSIZE);
  const std::string long_key(1025, 'k');
  custom_labels_label_t label{str(long_key), str("value")};
  EXPECT_EQ(custom_labels_run_with(nullptr, &label, 1, callback, &called, nullptr), EMSGSIZE);
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace vitrine
