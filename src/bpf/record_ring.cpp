#include "bpf/record_ring.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <map>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "base/clock.hpp"
#include "base/signals.hpp"
#include "bpf/kernel_log.hpp"
#include "bpf/wire/event.h"
#include "query/compile.hpp"

namespace vitrine::bpf {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds shortest_wait{1}, longest_wait{10};
/// Of the collector, for room: until it looks whether it has to end.
constexpr milliseconds longest_wait_for_room{100};
constexpr std::size_t between_looks = 64;  ///< records from one look at the clock to the next

}  // namespace

std::size_t RecordRing::size_of(std::size_t wanted_bytes) {
  return std::bit_ceil(std::clamp<std::size_t>(wanted_bytes, 64 * 1024, 1U << 30));
}

RecordRing::~RecordRing() {
  if (!collector_.is_here()) {
    static_cast<void>(queue_.release());  // the collector may have been at it
  } else if (collector_->joinable()) {
    collector_->request_stop();
    const std::uint64_t one = 1;
    (void)!::write(stop_, &one, sizeof one);
    collector_->join();
  }
  if (stop_ >= 0) ::close(stop_);
  if (wake_ >= 0) ::close(wake_);
}

Result<void> RecordRing::open(int map, volatile unsigned* reader_waits) {
  const KernelLog log;
  reader_waits_ = reader_waits;
  bpf_map_info info{};
  std::uint32_t size = sizeof info;
  if (bpf_obj_get_info_by_fd(map, &info, &size) != 0)
    return tl::unexpected(log.error("look at the buffer of records", errno));
  TRY(ring_.emplace(map, info.max_entries).open());
  // Edge-triggered: only a wake-up ends a wait, not that there is something to read.
  wake_ = ::epoll_create1(EPOLL_CLOEXEC);
  stop_ = ::eventfd(0, EFD_CLOEXEC);
  epoll_event wake{}, stop{};
  wake.events = EPOLLIN | EPOLLET;
  stop.events = EPOLLIN;
  if (wake_ < 0 || stop_ < 0 || ::epoll_ctl(wake_, EPOLL_CTL_ADD, map, &wake) != 0 ||
      ::epoll_ctl(wake_, EPOLL_CTL_ADD, stop_, &stop) != 0)
    return tl::unexpected(log.error("wait for the buffer of records", errno));
  return {};
}

/// `most`: negative: however long that takes.
void RecordRing::wait_for_wake_up(milliseconds most) {
  *reader_waits_ = 1;
  epoll_event event{};
  ::epoll_wait(wake_, &event, 1, static_cast<int>(most.count()));
}

void RecordRing::begin_collecting() {
  const std::size_t max_bytes = std::exchange(backlog_bytes_, 0);
  const SignalsBlocked blocked;  // signals are for the other threads
  try {
    queue_ = std::make_unique<RecordQueue>(max_bytes);
    *collector_ = std::jthread([this](const std::stop_token& stop) { run_collector(stop); });
  } catch (const std::exception&) {  // no memory, or no thread
    queue_.reset();
  }
}

/// Sleeps until the buffer is filled to a part: what is in it until then is for the thread that polls.
void RecordRing::run_collector(const std::stop_token& stop) {
  ::prctl(PR_SET_NAME, "vitrine-collect");
  while (!stop.stop_requested() && error_ == 0) {
    if (!queue_->wait_for_room(Clock::now() + longest_wait_for_room)) continue;
    pass(false);
    if (queue_->wait_for_room(Clock::now())) wait_for_wake_up(milliseconds(-1));
  }
}

/// Takes what is in the buffer into the queue, as far as that has room.
RecordRing::Passed RecordRing::pass(bool by_poll) {
  const std::unique_lock lock(passing_, std::try_to_lock);
  if (!lock) return Passed::not_done;
  const bool has_room = queue_->wait_for_room(Clock::now());
  const auto taken = has_room ? ring_->take_all(hand_over, this) : MappedRing::Taken::stopped;
  if (taken == MappedRing::Taken::failed) error_ = errno;
  // By the thread that polls: all is there for it. By the collector: many small chunks would be.
  if (by_poll)
    queue_->publish();
  else
    queue_->offer();
  return taken == MappedRing::Taken::all ? Passed::all : Passed::part;
}

namespace {

std::uint64_t time_of(std::span<const std::byte> record) {
  vitrine_event_header header{};
  if (record.size() >= sizeof header) std::memcpy(&header, record.data(), sizeof header);
  return header.time_ns;
}

}  // namespace

/// All that was there when poll() `began` has been handed over, or all before the newest record.
void RecordRing::took(Clock::time_point began, bool is_all) {
  const auto began_ns = kernel_time_ns(began);
  taken_until_ns_ = std::max(taken_until_ns_, is_all ? began_ns : std::min(began_ns, newest_ns_));
}

/// All that is in the queue, or until some time after `end`: then it is not all.
std::size_t RecordRing::hand_over_queue(Clock::time_point end, const Sink& sink, bool& is_all) {
  std::size_t records = 0;
  while (queue_->wait(Clock::now())) {
    for (auto record = queue_->take(); !record.empty(); record = queue_->take()) {
      newest_ns_ = std::max(newest_ns_, time_of(record));
      sink(record);
      if (++records % between_looks == 0 && Clock::now() > end + longest_wait) {
        is_all = false;
        return records;
      }
    }
  }
  return records;
}

Result<std::size_t> RecordRing::poll_queue(milliseconds timeout, const Sink& sink) {
  auto began = Clock::now();
  const auto end = began + timeout;
  for (;; began = Clock::now()) {
    const Passed passed = pass(true);
    bool is_all = passed == Passed::all;
    const std::size_t records = hand_over_queue(end, sink, is_all);
    took(began, is_all);
    wait_ = records != 0 ? shortest_wait : std::min(wait_ * 2, longest_wait);
    if (records != 0) return records;
    if (error_ != 0) return tl::unexpected(KernelLog().error("read records", error_.load()));
    const auto now = Clock::now();
    const bool is_done = passed != Passed::not_done;
    if (is_done && now >= end) return 0;
    // The collector's pass is short, or brings something.
    (void)queue_->wait(is_done ? std::min(end, now + wait_) : now + shortest_wait);
  }
}

Result<std::size_t> RecordRing::poll(milliseconds timeout, const Sink& sink) {
  if (backlog_bytes_ != 0) begin_collecting();
  if (queue_) return poll_queue(timeout, sink);
  const KernelLog log;
  const auto end = Clock::now() + timeout;
  handed_over_ = 0;
  last_header_ = end + longest_wait;
  sink_ = &sink;
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
    if (left > milliseconds{0}) wait_for_wake_up(std::min(left, wait_));
    const auto began = Clock::now();
    const auto taken = ring_->take_all(hand_over, this);
    const int error = errno;
    took(began, taken == MappedRing::Taken::all);
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
    if (taken == MappedRing::Taken::failed) return tl::unexpected(log.error("read records", error));
    wait_ = handed_over_ != 0 ? shortest_wait : std::min(wait_ * 2, longest_wait);
    if (handed_over_ != 0 || Clock::now() >= end) return handed_over_;
  }
}

namespace {

/// Fires of one thread at one site have the same number: behind the header is where it fired. Shorter records have
/// one of their own.
std::uint64_t source_of(std::span<const std::byte> record) {
  if (record.size() < sizeof(vitrine_event_header)) return 0;
  struct {
    vitrine_event_header header;
    std::uint64_t address;
  } begin{};
  std::memcpy(&begin, record.data(), std::min(sizeof begin, record.size()));
  return begin.address + static_cast<std::uint32_t>(begin.header.tid);
}

}  // namespace

bool RecordRing::hand_over(void* context, std::span<const std::byte> record) {
  auto& ring = *static_cast<RecordRing*>(context);
  if (ring.queue_) return ring.queue_->put(record, source_of(record));
  const bool late = ++ring.handed_over_ % between_looks == 0 && Clock::now() > ring.last_header_;
  ring.newest_ns_ = std::max(ring.newest_ns_, time_of(record));
  try {
    (*ring.sink_)(record);
  } catch (...) {
    ring.thrown_ = std::current_exception();  // what it was given counts as taken
  }
  return !late && !ring.thrown_;
}

namespace {

/// Calls `take(key, value bytes)` for each entry of a hash table, a thousand at a time.
template <class Key, class Take>
Result<void> for_each(int table, std::size_t value_bytes, Take take) {
  constexpr std::uint32_t at_once = 1024;
  std::vector<Key> keys(at_once);
  std::vector<std::byte> values(at_once * value_bytes);
  std::uint32_t in = 0, out = 0;
  bool first = true;
  for (;;) {
    auto count = static_cast<std::uint32_t>(keys.size());
    const int got = bpf_map_lookup_batch(table, first ? nullptr : &in, &out, keys.data(),
                                         values.data(), &count, nullptr);
    const int error = got == 0 ? 0 : errno;
    if (error == ENOSPC) {  // one chain of the table is longer than what was asked for
      keys.resize(keys.size() * 2);
      values.resize(keys.size() * value_bytes);
      continue;
    }
    if (error != 0 && error != ENOENT)
      return tl::unexpected(KernelLog().error("read the aggregated rows", error));
    for (std::size_t i = 0; i < count; ++i) take(keys[i], values.data() + i * value_bytes);
    if (error == ENOENT) return {};
    in = out;
    first = false;
  }
}

std::uint64_t hash_of(const vitrine_hash_key& key, const vitrine_group& group) {
  return query::keyed_hash(key, {reinterpret_cast<const char*>(&group), sizeof group});
}

/// What hashes stand for; each is asked for once.
class Names {
 public:
  explicit Names(int table) : table_(table) {}

  ReductionRow::Label of(std::uint64_t hash) {
    const auto [entry, is_new] = known_.try_emplace(hash);
    if (is_new) {
      vitrine_name name{};
      if (bpf_map_lookup_elem(table_, &hash, &name) == 0) {
        const auto length = std::min<std::size_t>(name.length, sizeof name.bytes);
        entry->second.text.emplace(reinterpret_cast<const char*>(name.bytes), length);
        entry->second.cut = name.whole > name.length;
      }
    }
    return entry->second;
  }

 private:
  int table_;
  std::unordered_map<std::uint64_t, ReductionRow::Label> known_;
};

constexpr std::uint64_t top_bit = 1ULL << 63;

void add(ReductionRow& row, const vitrine_aggregate& part, bool is_signed) {
  // Kept as the greatest of what grows with the value, and of what shrinks: zero is nothing yet.
  if (part.count == 0) return;
  const std::uint64_t sign = is_signed ? top_bit : 0;
  const auto ordered = [&](std::uint64_t value) { return value ^ sign; };
  const std::uint64_t least = ~part.least, most = part.most;
  if (row.count == 0 || least < ordered(row.least)) row.least = least ^ sign;
  if (row.count == 0 || most > ordered(row.most)) row.most = most ^ sign;
  row.count += part.count;
  const std::uint64_t sum = row.sum + part.sum;
  row.sum_high += part.sum_high + (sum < part.sum ? 1 : 0);
  row.sum = sum;
}

}  // namespace

Result<std::vector<ReductionRow>> read_reduction_rows(const ReductionTables& tables,
                                                      const vitrine_hash_key& key,
                                                      std::span<const ReductionShape> shapes,
                                                      std::size_t selected_labels) {
  const KernelLog log;
  const auto cpus = static_cast<std::size_t>(libbpf_num_possible_cpus());
  std::unordered_map<std::uint64_t, ReductionRow> rows;
  Names names(tables.names);
  std::map<std::uint32_t, const ReductionShape*> of_probe;
  for (const ReductionShape& shape : shapes) of_probe[shape.probe] = &shape;

  const auto row_of = [&](const vitrine_group& group) -> ReductionRow& {
    const auto [entry, is_new] = rows.try_emplace(hash_of(key, group));
    ReductionRow& row = entry->second;
    if (!is_new) return row;
    row.probe = group.probe;
    row.others = group.others != 0;
    for (std::size_t i = 0; i < selected_labels; ++i) {
      row.labels.emplace_back();
      if (group.label[i] != 0) row.labels.back() = names.of(group.label[i]);
    }
    const auto shape = of_probe.find(group.probe);
    if (shape == of_probe.end() || row.others) return row;
    const std::vector<bool>& is_text = shape->second->argument_is_text;
    for (std::size_t i = 0; i < is_text.size(); ++i) {
      ReductionRow::Argument& argument = row.arguments.emplace_back();
      argument.value = group.argument[i];
      if (!is_text[i] || group.argument[i] <= VITRINE_NULL_TEXT) continue;
      ReductionRow::Label name = names.of(group.argument[i]);
      argument.text = std::move(name.text);
      argument.cut = name.cut;
    }
    return row;
  };

  std::vector<vitrine_aggregate> of_cpus(cpus);
  for (const ReductionShape& shape : shapes) {
    if (bpf_map_lookup_elem(shape.ungrouped, &shape.place, of_cpus.data()) != 0) continue;
    vitrine_group group{};
    group.probe = shape.probe;
    group.others = shape.is_grouped ? 1 : 0;
    for (const vitrine_aggregate& part : of_cpus)
      if (part.count != 0) add(row_of(group), part, shape.is_signed);
  }

  TRY(for_each<vitrine_group>(tables.groups, cpus * sizeof(vitrine_aggregate),
                              [&](const vitrine_group& group, const std::byte* parts) {
                                ReductionRow& row = row_of(group);
                                const auto shape = of_probe.find(group.probe);
                                const bool is_signed =
                                    shape != of_probe.end() && shape->second->is_signed;
                                for (std::size_t cpu = 0; cpu < cpus; ++cpu) {
                                  vitrine_aggregate part{};
                                  std::memcpy(&part, parts + cpu * sizeof part, sizeof part);
                                  add(row, part, is_signed);
                                }
                              }));

  TRY(for_each<vitrine_group_bucket>(
      tables.buckets, sizeof(std::uint64_t),
      [&](const vitrine_group_bucket& bucket, const std::byte* value) {
        const auto row = rows.find(bucket.group);
        std::uint64_t count = 0;
        std::memcpy(&count, value, sizeof count);
        if (row != rows.end() && count != 0) row->second.buckets[bucket.bucket] += count;
      }));

  std::vector<ReductionRow> out;
  out.reserve(rows.size());
  for (auto& [hash, row] : rows)
    if (row.count != 0 || !row.others) out.push_back(std::move(row));
  return out;
}

}  // namespace vitrine::bpf
