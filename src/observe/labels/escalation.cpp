#include "observe/labels/escalation.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <thread>
#include <vector>

#include "base/memory.hpp"
#include "format/label_set.hpp"
#include "observe/labels/ptrace_reader.hpp"
#include "observe/labels/slot_reading.hpp"
#include "target/stopped_threads.hpp"

namespace vitrine::observe {
namespace {

using abi::custom_labels::SerialSet;

template <class T>
std::span<std::byte> raw_bytes(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace

std::optional<format::LabelSet> read_by_serial(Memory& memory, Address slot,
                                               const format::DecodeContext& context) {
  auto before = memory.read_value<Address>(slot, "thread-local slot");
  if (!before) return std::nullopt;
  const Address set = *before & context.address_mask;
  if (set < limits::lowest_address) return std::nullopt;
  const auto mark = format::read_serial(memory, set);
  if (!mark || mark->total_bytes < sizeof(SerialSet) ||
      mark->total_bytes > limits::hard_label_limits.bytes_per_thread)
    return std::nullopt;

  std::vector<std::byte> block(mark->total_bytes);
  Address after = 0;
  SerialSet head{};
  std::array<ReadRequest, 3> in_order{
      {{set, block, 0}, {slot, raw_bytes(after), 0}, {set, raw_bytes(head), 0}}};
  memory.read(in_order);
  for (const ReadRequest& request : in_order)
    if (!request.complete()) return std::nullopt;
  if (after != *before || !format::is_unchanged(*mark, head)) return std::nullopt;

  ChunkMemory copy({{set, block}});
  auto decoded = format::decode_record(format::Format::custom_labels_v1, copy, set, context);
  if (!decoded || !copy.missed().empty()) return std::nullopt;
  return std::move(decoded->set);
}

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int max_retries = 3;
constexpr std::size_t max_sharers = 64;  // more are too many to prove at once

// A thread that keeps a CPU busy is caught within a period. How many at once: each costs an event.
constexpr auto sample_period = 100us;
constexpr auto sample_deadline = 40ms;
constexpr std::size_t max_sampled = 64;

/// 0: an error; 2: nothing is wrong with it.
int wholeness(const Result<format::LabelSet>& set) {
  if (!set) return 0;
  return set->truncated.empty() && set->defects.empty() ? 2 : 1;
}

}  // namespace

Result<format::LabelSet> best_of_reads(const std::function<Result<format::LabelSet>()>& read,
                                       const std::atomic<bool>* stop) {
  constexpr int lasting = 3;  // what is broken as often again is so, or cannot be read better
  auto best = read();
  auto last = best;
  int repeats = 0;
  for (int n = 1; n < max_reads_of_best && !(stop && stop->load()); ++n) {
    auto next = read();
    repeats = next == last ? repeats + 1 : 0;
    if (wholeness(next) >= wholeness(best)) best = next;
    if (repeats >= (wholeness(next) == 2 ? 1 : lasting)) break;
    last = std::move(next);
  }
  return best;
}

/// The items of one escalate that are still open.
struct Escalation::Work {
  std::span<const Unproven> items;
  std::vector<Escalated> results;
  std::vector<std::size_t> open;
  std::size_t& bytes_left;
  std::vector<std::string>& notes;
  bool tried = false;  // to prove each of them once

  void close(const std::vector<bool>& done) {
    open.erase(
        std::remove_if(open.begin(), open.end(), [&](std::size_t item) { return done[item]; }),
        open.end());
  }
};

Escalation::Escalation(Subject& subject, const LabelOptions& options)
    : subject_(subject), options_(options), rest_(subject.process().proc_dir()) {}

bool Escalation::cancelled() const {
  return options_.stop != nullptr && options_.stop->load();
}

/// Asked after a read that no look at the thread proves.
bool Escalation::is_still_there(const Unproven& unproven) const {
  return target::is_still(subject_.process().proc_dir(), unproven.thread.id);
}

std::vector<Escalated> Escalation::escalate(std::span<const Unproven> unproven,
                                            std::size_t& bytes_left,
                                            std::vector<std::string>& notes) {
  Work work{unproven, {}, {}, bytes_left, notes, false};
  work.results.resize(unproven.size());
  for (std::size_t i = 0; i < unproven.size(); ++i) work.open.push_back(i);
  retry(work);
  sample(work);
  stop(work);
  take_best(work);
  for (std::size_t i = 0; i < unproven.size(); ++i)
    if (!work.results[i].set && has_unmapped_its_own(subject_, unproven[i].thread.thread_pointer))
      work.results[i].has_ended = true;
  return std::move(work.results);
}

void Escalation::retry(Work& work) {
  std::uniform_int_distribution<int> jitter(20, 200);  // out of step with a periodic writer
  for (int attempt = 0; attempt < max_retries && !work.open.empty() && !cancelled(); ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(std::chrono::microseconds(jitter(random_)));
    std::vector<bool> done(work.items.size());
    // Items that share a set are proven together: all of them need the same threads at rest.
    std::map<const std::vector<pid_t>*, std::vector<std::size_t>> groups;
    for (const std::size_t item : work.open) {
      if (cancelled()) break;
      const auto& sharers = work.items[item].sharers;
      // A foreign set has no serial: another attempt only costs time when there are thousands.
      if (work.tried && sharers && sharers->size() > max_sharers) continue;
      if (prove_by_serial(work, item))
        done[item] = true;
      else if (!sharers)
        done[item] = prove_by_rest(work, std::span(&item, 1));
      else if (sharers->size() <= max_sharers)
        groups[sharers.get()].push_back(item);
    }
    for (const auto& [sharers, items] : groups)
      if (!cancelled() && prove_by_rest(work, items))
        for (const std::size_t item : items) done[item] = true;
    work.tried = true;
    work.close(done);
  }
}

/// By the serial of vitrine's writer: the set is whole. True also where there is no more to prove, as the thread has ended.
bool Escalation::prove_by_serial(Work& work, std::size_t item) {
  const Unproven& unproven = work.items[item];
  const Definition& definition = subject_.definitions()[unproven.definition];
  if (definition.format != format::Format::custom_labels_v1) return false;
  const auto slot = slot_address(subject_, definition, unproven.thread.thread_pointer);
  if (!slot || !*slot) return false;
  std::size_t left = work.bytes_left;
  auto set = read_by_serial(subject_.process().memory(), **slot,
                            subject_.decode_context(definition, &left));
  if (!set) return false;
  if (!is_still_there(unproven)) {
    work.results[item].has_ended = true;
    return true;
  }
  work.bytes_left = left;
  work.results[item] = {Evidence::serial, std::move(*set)};
  return true;
}

/// By /proc, for items of one set, or a single one: the threads, and all others that share the set,
/// ran nothing while it was read.
bool Escalation::prove_by_rest(Work& work, std::span<const std::size_t> items) {
  const Unproven& first = work.items[items.front()];
  const std::span<const pid_t> tids =
      first.sharers ? std::span<const pid_t>(*first.sharers) : std::span(&first.thread.id.tid, 1);
  std::vector<std::pair<pid_t, std::uint64_t>> resting;
  for (const pid_t tid : tids) {
    const auto runs = rest_.begin(tid);
    if (!runs) return false;
    resting.emplace_back(tid, *runs);
  }
  std::size_t left = work.bytes_left;
  std::vector<Result<format::LabelSet>> sets;
  sets.reserve(items.size());
  for (const std::size_t item : items) {
    const Unproven& unproven = work.items[item];
    sets.push_back(read_directly(subject_, subject_.definitions()[unproven.definition],
                                 unproven.thread.thread_pointer, &left));
  }
  for (const auto& [tid, runs] : resting)
    if (!rest_.still_rests(tid, runs)) return false;
  work.bytes_left = left;
  for (std::size_t i = 0; i < items.size(); ++i)
    work.results[items[i]] = {Evidence::proven, std::move(sets[i])};
  return true;
}

void Escalation::sample(Work& work) {
  if (work.open.empty() || cancelled()) return;
  if (!sampler_ && without_sampler_.empty()) {
    auto opened = SubjectSampler::open(subject_);
    if (opened)
      sampler_ = std::move(*opened);
    else
      without_sampler_ = opened.error().message;
  }
  if (!sampler_) {
    work.notes.push_back("running threads cannot be sampled: " + without_sampler_);
    return;
  }
  if (auto set = sampler_->set_definitions(); !set) {
    work.notes.push_back(set.error().message);
    return;
  }

  std::multimap<pid_t, std::size_t> wanted;  // tid → item
  for (const std::size_t item : work.open) {
    const pid_t tid = work.items[item].thread.id.tid;
    if (wanted.size() == max_sampled) break;
    if (wanted.count(tid) == 0) {
      auto started = sampler_->sampler().start(tid, sample_period);
      if (!started) {
        if (started.error().code != ErrorCode::not_found)
          work.notes.push_back(started.error().message);
        continue;
      }
    }
    wanted.emplace(tid, item);
  }
  std::vector<bool> done(work.items.size());
  const auto take = [&](std::span<const std::byte> bytes) {
    const auto sample = bpf::parse_sample(bytes);
    if (!sample || !sampler_->concerns(*sample)) return;
    for (auto [at, end] = wanted.equal_range(sample->head.tid); at != end; ++at) {
      const std::size_t item = at->second;
      const Unproven& unproven = work.items[item];
      if (done[item]) continue;
      for (const bpf::SampledSet& set : sample->sets) {
        if (set.head.definition != unproven.definition) continue;
        std::size_t left = work.bytes_left;
        auto read = sampler_->decode(set, unproven.thread.thread_pointer, &left);
        if (!read.complete) continue;  // the next one will be
        work.bytes_left = left;
        work.results[item] = {Evidence::sampled, std::move(read.set)};
        done[item] = true;
      }
    }
  };
  const auto all_done = [&] {
    return std::all_of(wanted.begin(), wanted.end(),
                       [&](const auto& entry) { return done[entry.second]; });
  };
  for (const auto end = Clock::now() + sample_deadline;
       !all_done() && Clock::now() < end && !cancelled();)
    if (!sampler_->sampler().poll(2ms, take)) break;
  sampler_->sampler().stop();
  work.close(done);
  // A thread not seen in all that time does not run, so it can be proven now.
  retry(work);
}

void Escalation::stop(Work& work) {
  if (work.open.empty() || !options_.may_stop || cancelled()) return;
  // A thread has an item for each definition, and stops once.
  std::map<pid_t, std::vector<std::size_t>> items_of;
  for (const std::size_t item : work.open) items_of[work.items[item].thread.id.tid].push_back(item);
  std::vector<pid_t> tids;
  for (const auto& [tid, items] : items_of) tids.push_back(tid);
  std::vector<bool> done(work.items.size());
  target::visit_stopped(
      subject_.process(), tids, options_.stop_deadline, options_.stop,
      [&](std::size_t index, const Result<Address>& tp) {
        if (!tp) {
          if (tp.error().code == ErrorCode::not_found) return;  // it ended meanwhile
          work.notes.push_back(tp.error().message);
          return;
        }
        for (const std::size_t item : items_of.at(tids[index])) {
          const Definition& definition = subject_.definitions()[work.items[item].definition];
          work.results[item] = {Evidence::stopped,
                                read_directly(subject_, definition, *tp, &work.bytes_left)};
          done[item] = true;
        }
      });
  work.close(done);
}

void Escalation::take_best(Work& work) {
  for (const std::size_t item : work.open) {
    const Unproven& unproven = work.items[item];
    const Definition& definition = subject_.definitions()[unproven.definition];
    auto best = best_of_reads(
        [&] {
          std::size_t left = work.bytes_left;
          return read_directly(subject_, definition, unproven.thread.thread_pointer, &left);
        },
        options_.stop);
    if (!is_still_there(unproven)) {
      work.results[item].has_ended = true;
      continue;
    }
    if (best) work.bytes_left -= std::min(work.bytes_left, bytes_of(*best));
    work.results[item] = {Evidence::unproven, std::move(best)};
  }
}

}  // namespace vitrine::observe
