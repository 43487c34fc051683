#include "observe/labels/snapshot_reader.hpp"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/clock.hpp"
#include "bpf/thread_iterator.hpp"
#include "observe/labels/ptrace_reader.hpp"
#include "observe/labels/subject.hpp"
#include "target/threads.hpp"

namespace vitrine::observe {
namespace {

/// The kernel's nanoseconds since boot as /proc shows start times to this process.
std::uint64_t clock_ticks(std::uint64_t nanoseconds) {
  static const auto per_second = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  const auto shown = nanoseconds + static_cast<std::uint64_t>(own_clock_offsets().boottime_ns);
  return shown / (1'000'000'000 / per_second);
}

bool by_tid(const vitrine_thread& left, const vitrine_thread& right) {
  return left.tid < right.tid;
}

class BpfSource final : public ThreadSource {
 public:
  explicit BpfSource(std::unique_ptr<bpf::ThreadIterator> iterator)
      : iterator_(std::move(iterator)) {}

  Result<std::vector<SeenThread>> list() override {
    TRY(pass(before_));
    if (before_.empty()) return fail(ErrorCode::not_found, "the process has ended");
    std::vector<SeenThread> threads;
    threads.reserve(before_.size());
    for (const vitrine_thread& thread : before_) {
      SeenThread& seen = threads.emplace_back();
      seen.id = {thread.tid, clock_ticks(thread.start_time_ns)};
      std::copy_n(thread.comm, sizeof thread.comm, seen.comm.begin());
      seen.thread_pointer = thread.thread_pointer;
      seen.at_rest = thread.at_rest != 0;
      seen.runs = thread.switches;
    }
    return threads;
  }

  Result<std::vector<Since>> since_listed() override {
    TRY(pass(after_));
    std::vector<Since> since;
    since.reserve(before_.size());
    auto now = after_.begin();
    for (const vitrine_thread& then : before_) {
      while (now != after_.end() && now->tid < then.tid) ++now;
      const bool same =
          now != after_.end() && now->tid == then.tid && now->start_time_ns == then.start_time_ns;
      const bool rested = same && then.at_rest && now->at_rest && now->switches == then.switches;
      since.push_back(!same ? Since::ended : rested ? Since::rested : Since::ran);
    }
    return since;
  }

 private:
  Result<void> pass(std::vector<vitrine_thread>& into) {
    auto done = iterator_->read(into);
    if (done && !std::is_sorted(into.begin(), into.end(), by_tid))
      std::sort(into.begin(), into.end(), by_tid);
    return done;
  }

  std::unique_ptr<bpf::ThreadIterator> iterator_;
  std::vector<vitrine_thread> before_;
  std::vector<vitrine_thread> after_;
};

class ProcSource final : public ThreadSource {
 public:
  explicit ProcSource(const target::Process& process)
      : process_(process), watch_(process.proc_dir()) {}

  Result<std::vector<SeenThread>> list() override {
    auto found = TRY(target::threads(process_.proc_dir()));
    std::vector<SeenThread> threads;
    threads.reserve(found.size());
    std::vector<pid_t> tids;
    ids_.clear();
    runs_.clear();
    for (const target::Thread& thread : found) {
      SeenThread& seen = threads.emplace_back();
      seen.id = thread.id;
      seen.set_name(thread.comm);
      tids.push_back(thread.id.tid);
      ids_.push_back(thread.id);
      runs_.push_back(watch_.begin(thread.id.tid));
      seen.at_rest = runs_.back().has_value();
      seen.runs = runs_.back().value_or(0);
    }
    watch_.keep_only(tids.begin(), tids.end());
    return threads;
  }

  Result<std::vector<Since>> since_listed() override {
    std::vector<Since> since;
    since.reserve(ids_.size());
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      const bool rested = runs_[i] && watch_.still_rests(ids_[i].tid, *runs_[i]);
      const bool has_ended = !rested && !target::is_still(process_.proc_dir(), ids_[i]);
      since.push_back(has_ended ? Since::ended : rested ? Since::rested : Since::ran);
    }
    return since;
  }

 private:
  const target::Process& process_;
  target::RestWatch watch_;
  std::vector<target::ThreadId> ids_;
  std::vector<std::optional<std::uint64_t>> runs_;
};

}  // namespace

Result<std::unique_ptr<ThreadSource>> bpf_thread_source(const target::Process& process) {
  auto iterator = TRY(bpf::ThreadIterator::open(process.pidfd()));
  return std::make_unique<BpfSource>(std::move(iterator));
}

std::unique_ptr<ThreadSource> proc_thread_source(const target::Process& process) {
  return std::make_unique<ProcSource>(process);
}

namespace {

/// Which contents no thread can have changed while they were read: a set of a foreign writer may be
/// edited by any thread that has it in force.
std::vector<bool> trusted_contents(const Readings& readings, const std::vector<bool>& rested) {
  std::vector<bool> trusted(readings.contents.size(), true);
  for (const SlotReading& slot : readings.slots)
    if (slot.content != SlotReading::no_content && !rested[slot.thread])
      trusted[slot.content] = false;
  return trusted;
}

}  // namespace

Result<std::unique_ptr<LabelReader>> SnapshotReader::open(int pid, LabelOptions options) {
  auto subject = TRY(Subject::open(pid, options.limits, sandbox::WorkBudget(options.stop)));
  return std::unique_ptr<LabelReader>(new SnapshotReader(std::move(subject), std::move(options)));
}

void SnapshotReader::begin_program() {
  auto source = bpf_thread_source(subject_->process());
  without_bpf_ = source ? "" : source.error().message;
  source_ = source ? std::move(*source) : proc_thread_source(subject_->process());
  slots_ = std::make_unique<SlotReader>(*subject_);
  escalation_ = std::make_unique<Escalation>(*subject_, options_);
}

std::vector<DefinitionInfo> SnapshotReader::definitions() const {
  return describe(*subject_);
}

Result<std::vector<SeenThread>> SnapshotReader::list() {
  auto threads = source_->list();
  if (threads) subject_->complete_thread_pointers(*threads);
  return threads;
}

/// What became of the threads. One whose slots are all known to be unchanged was at rest, as it had been
/// before, when it was listed: if all are so, the threads are not listed again.
Result<std::vector<Since>> SnapshotReader::since_listed(std::span<const SeenThread> threads,
                                                        const Readings& readings) {
  const bool is_all_steady = std::all_of(readings.slots.begin(), readings.slots.end(),
                                         [](const SlotReading& slot) { return slot.steady; });
  if (is_all_steady) return std::vector<Since>(threads.size(), Since::rested);
  return source_->since_listed();
}

Result<Snapshot> SnapshotReader::read(std::chrono::milliseconds) {
  return subject_->read_unchanged(options_.stop, [&](Change change) -> Result<Snapshot> {
    if (change == Change::program) begin_program();
    if (change != Change::none) slots_ = std::make_unique<SlotReader>(*subject_);
    auto threads = TRY(list());
    std::size_t bytes_left = limits::within_hard_caps(options_.limits).bytes_per_snapshot;
    Readings readings = slots_->read(threads, bytes_left);
    const auto since = TRY(since_listed(threads, readings));
    return assemble(threads, std::move(readings), since, bytes_left);
  });
}

Snapshot SnapshotReader::assemble(std::span<const SeenThread> threads, Readings readings,
                                  std::span<const Since> since, std::size_t& bytes_left) {
  std::vector<bool> rested;
  for (const Since what : since) rested.push_back(what == Since::rested);
  const bool all_rested = std::find(rested.begin(), rested.end(), false) == rested.end();
  const std::vector<bool> trusted = trusted_contents(readings, rested);
  Snapshot snapshot;
  snapshot.notes = subject_->notes();
  if (!without_bpf_.empty()) snapshot.notes.push_back("reading by /proc only: " + without_bpf_);
  snapshot.threads.reserve(readings.slots.size());
  std::vector<Unproven> unproven;
  std::vector<std::size_t> places;  // of the unproven, in snapshot.threads
  std::map<std::size_t, std::shared_ptr<std::vector<pid_t>>> sharers;  // by content
  for (SlotReading& slot : readings.slots) {
    const SeenThread& thread = threads[slot.thread];
    if (since[slot.thread] == Since::ended) continue;
    if (!wanted(options_, thread.id.tid)) continue;
    if (slot.error && has_unmapped_its_own(*subject_, thread.thread_pointer)) continue;
    ThreadLabels& labels = snapshot.threads.emplace_back(
        labels_of(*subject_, Mode::snapshot, thread, subject_->definitions()[slot.definition]));
    Content* content =
        slot.content == SlotReading::no_content ? nullptr : &readings.contents[slot.content];
    const bool whole = content == nullptr || content->mark || trusted[slot.content];
    if (slot.error)
      labels.set = tl::unexpected<Error>(*slot.error);
    else if (content != nullptr)
      labels.set = slots_->take_labels(*content, all_rested, bytes_left);
    if (slot.steady || (rested[slot.thread] && whole)) {
      labels.evidence = Evidence::proven;
    } else if (content != nullptr && content->unchanged()) {
      labels.evidence = Evidence::serial;
    } else if (thread.thread_pointer != 0) {
      Unproven& item = unproven.emplace_back(Unproven{thread, slot.definition, nullptr});
      if (content != nullptr && !content->mark && content->slots > 1) {
        auto& list = sharers[slot.content];
        if (!list) list = std::make_shared<std::vector<pid_t>>();
        item.sharers = list;
      }
      places.push_back(snapshot.threads.size() - 1);
    }
  }
  for (const SlotReading& slot : readings.slots)
    if (const auto list = sharers.find(slot.content); list != sharers.end())
      list->second->push_back(threads[slot.thread].id.tid);
  slots_->remember(threads, std::move(readings), rested, trusted);

  // What is read once more takes the place of what was read.
  for (const std::size_t place : places) {
    auto& set = snapshot.threads[place].set;
    if (set) bytes_left += bytes_of(*set);
    set = format::LabelSet{};
  }
  auto escalated = escalation_->escalate(unproven, bytes_left, snapshot.notes);
  std::vector<bool> ended(snapshot.threads.size());
  for (std::size_t i = 0; i < escalated.size(); ++i) {
    ended[places[i]] = escalated[i].has_ended;
    snapshot.threads[places[i]].evidence = escalated[i].evidence;
    snapshot.threads[places[i]].set = std::move(escalated[i].set);
  }
  std::size_t place = 0;
  std::erase_if(snapshot.threads, [&](const ThreadLabels&) { return ended[place++]; });
  return snapshot;
}

}  // namespace vitrine::observe
