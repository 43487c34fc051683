// What EventLabels makes of records, whatever order they come in.
#include "observe/events/event_labels.hpp"

#include <gmock/gmock.h>

#include "bpf/own_labels.hpp"
#include "observe/trace_subject.hpp"

namespace vitrine::observe {
namespace {

using namespace test;

/// What the kernel would be given.
struct GivenTargets final : bpf::ProcessTable {
  Result<void> want(pid_t, const vitrine_target& target) override {
    given = target;
    return {};
  }
  void forget(pid_t) override {}
  void assume(const vitrine_executable&, const vitrine_target&) override {}

  vitrine_target given{};
};

bpf::FireSet record_of(const ForeignSet& set, std::uint64_t id, std::uint32_t definition) {
  bpf::FireSet record;
  record.head.id = id;
  record.head.definition = definition;
  record.head.state = VITRINE_SLOT_READ;
  record.head.slot = address_of(&set.set);
  const auto add = [&](const void* at, std::size_t bytes) {
    record.chunks.push_back({address_of(at), {static_cast<const std::byte*>(at), bytes}});
  };
  add(&set.set, sizeof set.set);
  add(set.entries.data(), set.entries.size() * sizeof(layout::Label));
  for (const auto& [key, value] : set.text) {
    add(key.data(), key.size());
    add(value.data(), value.size());
  }
  return record;
}

// A record that was begun before the others, and had to wait for a page, comes among those of the next epoch. What
// those have brought stays decoded, and is not what its own ids mean.
TEST(EventLabels, OfAnEarlierEpochAreTheirOwn) {
  Child child = start_trace_subject();
  GivenTargets table;
  EventLabels labels(table, {}, {});
  ProcessLabels its;
  labels.look_at(child.pid(), its, child.pid());
  ASSERT_EQ(table.given.definition_count, 1U);
  vitrine_event_header header{};
  header.pid = header.tid = header.kernel_tgid = child.pid();
  header.image = table.given.image;

  const ForeignSet before(Labels{{"tenant", "before"}}), now(Labels{{"tenant", "now"}});
  const std::uint32_t number = table.given.definitions[0].number;
  const bpf::FireSet earlier[] = {record_of(before, 7, number)},
                     later[] = {record_of(now, 7, number)};
  const auto value_in = [&](std::uint32_t epoch, std::span<const bpf::FireSet> sets) {
    header.epoch = epoch;
    const DisplayedLabels& got = labels.of(header, sets, &its);
    EXPECT_EQ(got.error, "");
    return std::pair(got.set.labels.empty() ? "none" : got.set.labels[0].value, got.id);
  };
  EXPECT_EQ(value_in(1, earlier).first, "before");
  const auto first = value_in(2, later);
  EXPECT_EQ(first.first, "now");
  EXPECT_NE(first.second, 0U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(value_in(1, earlier), (std::pair<std::string, std::uint64_t>("before", 0)));
    EXPECT_EQ(value_in(2, later), first) << "decoded once";
  }
}

}  // namespace
}  // namespace vitrine::observe
