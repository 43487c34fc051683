// An observer of one foreign writer, and what must hold between the two at any time.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "observe/labels/definitions.hpp"
#include "support/writer.hpp"
#include "target/thread_pointer.hpp"
#include "target/threads.hpp"

namespace vitrine::observe {

inline std::optional<format::ThreadSchema> schema_behind(const std::set<std::string>& formats) {
  for (const format::Format draft :
       {format::Format::v2_draft_b, format::Format::v2_draft_c, format::Format::v2_draft_d})
    if (formats.contains(std::string(format::name(draft)))) {
      format::ThreadSchema schema;
      schema.format = draft;
      return schema;
    }
  return std::nullopt;
}

inline std::set<std::string> formats_of(const std::vector<test::SlotTruth>& slots) {
  std::set<std::string> formats;
  for (const test::SlotTruth& slot : slots) formats.insert(slot.format);
  return formats;
}

class Observer {
 public:
  /// `pid`: of the writer, when it is not the program that the test started itself.
  explicit Observer(const test::Writer& writer, pid_t pid = 0)
      : writer_(writer),
        process_(*target::Process::open(pid == 0 ? writer.pid() : pid)),
        finder_(process_) {}

  target::Process& process() { return process_; }

  DefinitionFinder& finder() { return finder_; }

  /// Every thread's pointer is right; in every thread that displays something there is a definition
  /// of that format that leads to that address; and in no other thread does one lead to a value.
  void expect_agreement() {
    const auto slots = writer_.slots();
    const auto changed = finder_.refresh(schema_behind(formats_of(slots)));
    ASSERT_TRUE(changed) << changed.error().message;
    const auto threads = *target::threads(process_.proc_dir());
    ASSERT_EQ(threads.size(), writer_.threads().size());
    const auto pointers = pointers_.find(process_, threads, finder_.thread_layout());
    std::set<std::pair<pid_t, Address>> found;
    for (std::size_t i = 0; i < threads.size(); ++i) {
      const pid_t tid = threads[i].id.tid;
      ASSERT_EQ(pointers[i], truth_of(tid).tp) << truth_of(tid).name;
      for (const Definition& definition : finder_.all()) {
        const auto at = value_at(definition, *pointers[i], tid);
        EXPECT_TRUE(!at || found.emplace(tid, *at).second) << "listed twice";
      }
    }
    std::set<std::pair<pid_t, Address>> expected;
    for (const test::SlotTruth& slot : slots) expected.emplace(slot.tid, slot.address);
    EXPECT_EQ(found, expected) << testing::PrintToString(finder_.notes());
    displayed_ = std::move(found);
  }

  /// Whether the last agreement found this thread to display something there.
  bool displays(pid_t tid, Address at) const { return displayed_.contains({tid, at}); }

 private:
  const test::ThreadTruth& truth_of(pid_t tid) const {
    const auto found =
        std::find_if(writer_.threads().begin(), writer_.threads().end(),
                     [&](const test::ThreadTruth& thread) { return thread.tid == tid; });
    return found == writer_.threads().end() ? writer_.threads().front() : *found;
  }

  // Where the variable is, if it has another value than its initial one, null.
  std::optional<Address> value_at(const Definition& definition, Address tp, pid_t tid) {
    const auto at =
        target::evaluate(definition.location, process_.machine(), tp, process_.memory());
    EXPECT_TRUE(at) << truth_of(tid).name << ": " << at.error().message;
    if (!at || !*at) return std::nullopt;
    const auto value = process_.memory().read_value<std::uint64_t>(**at, "the variable");
    EXPECT_TRUE(value) << truth_of(tid).name << ": " << value.error().message;
    return value && *value != 0 ? *at : std::nullopt;
  }

  const test::Writer& writer_;
  target::Process process_;
  DefinitionFinder finder_;
  target::ThreadPointers pointers_;
  std::set<std::pair<pid_t, Address>> displayed_;
};

}  // namespace vitrine::observe
