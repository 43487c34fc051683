#include "observe/labels/ebpf_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "bpf/thread_iterator.hpp"
#include "observe/labels/subject.hpp"
#include "target/cpu_events.hpp"

namespace vitrine::observe {

Result<std::unique_ptr<SubjectSampler>> SubjectSampler::open(Subject& subject) {
  auto iterator = TRY(bpf::ThreadIterator::open(subject.process().pidfd()));
  std::vector<vitrine_thread> threads;
  TRY(iterator->read(threads));
  if (threads.empty()) return fail(ErrorCode::not_found, "the process has ended");
  auto sampler = TRY(bpf::Sampler::open());

  std::unique_ptr<SubjectSampler> made(new SubjectSampler(subject, std::move(sampler)));
  made->kernel_tgid_ = threads.front().kernel_tgid;
  made->pid_level_ = threads.front().pid_level;
  TRY(made->set_definitions());
  return made;
}

Result<void> SubjectSampler::set_definitions() {
  return sampler_->want(kernel_tgid_, wire_target(subject_, pid_level_));
}

KernelReading SubjectSampler::decode(const bpf::SampledSet& set, Address thread_pointer_hint,
                                     std::size_t* bytes_left) {
  const KernelSlot slot{set.head.state, set.head.slot_address, set.head.slot, set.chunks,
                        thread_pointer_hint};
  return decode_kernel_slot(subject_, subject_.definitions()[set.head.definition], slot,
                            bytes_left);
}

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds longest_wait{100};  // between two looks at whether to stop, and at changes

/// Of readings that may be torn: one that failed does not take the place of one that did not.
bool is_worse(const Result<format::LabelSet>& later, const Result<format::LabelSet>& before) {
  return !later && before;
}

bool is_same(const Definition& left, const Definition& right) {
  return left.format == right.format && left.module == right.module &&
         left.location == right.location && left.reference == right.reference;
}

}  // namespace

Result<std::unique_ptr<LabelReader>> EbpfReader::open(int pid, LabelOptions options) {
  TRY(target::require_sampling_frequency(options.sample_hz));
  auto subject = TRY(Subject::open(pid, options.limits, sandbox::WorkBudget(options.stop)));
  std::unique_ptr<EbpfReader> reader(new EbpfReader(std::move(subject), std::move(options)));
  reader->sampler_ = TRY(SubjectSampler::open(*reader->subject_));
  TRY(reader->sampler_->sampler().start(reader->options_.sample_hz));
  return std::unique_ptr<LabelReader>(std::move(reader));
}

std::vector<DefinitionInfo> EbpfReader::definitions() const {
  return describe(*subject_);
}

// The kernel samples by what was found out about the process before. So that what has changed meanwhile spoils little,
// the window is gathered in parts, each of which ends with a look at the process. Of a part in which it has changed its
// libraries, what was read of variables that are still where they were counts. Of one in which it has executed another
// program, nothing does. What was seen before counts in both cases.
Result<Snapshot> EbpfReader::read(milliseconds window) {
  TRY(subject_->refresh(sandbox::WorkBudget(options_.stop)));
  if (subject_->definitions().empty()) return tl::unexpected(subject_->why_none());
  seen_ = {};
  part_.clear();
  is_between_programs_ = false;
  seen_.bytes_left = limits::within_hard_caps(options_.limits).bytes_per_snapshot;
  TRY(begin_part());

  const auto end = Clock::now() + window;
  bool goes_on = true;
  while (goes_on) {
    const auto now = Clock::now();
    const auto before = subject_->definitions();
    part_definitions_.assign(before.begin(), before.end());
    TRY(gather(std::min(end, now + longest_wait)));
    goes_on = TRY(end_part());
    goes_on &= Clock::now() < end && !is_stopped();
  }

  Snapshot snapshot;
  snapshot.notes = subject_->notes();
  report_losses(snapshot);
  snapshot.notes.insert(snapshot.notes.end(), seen_.notes.begin(), seen_.notes.end());
  for (auto& [id, thread] : seen_.threads)
    for (auto& [definition, labels] : thread.sets) snapshot.threads.push_back(std::move(labels));
  if (snapshot.threads.empty())
    snapshot.notes.emplace_back(
        "no thread ran on a CPU when vitrine sampled; snapshot mode reads all threads");
  return snapshot;
}

/// Has the kernel sample by what is known now. What was sampled before does not count.
Result<void> EbpfReader::begin_part() {
  TRY(sampler_->set_definitions());
  seen_.begin_ns = kernel_time_ns();
  return {};
}

/// Takes over what of the part was made with knowledge that has held. Returns whether the process is still there.
Result<bool> EbpfReader::end_part() {
  const auto change = subject_->refresh_definitions(sandbox::WorkBudget(options_.stop));
  const bool ended = !change && change.error().code == ErrorCode::not_found;
  if (ended || (change && *change == Change::none && !is_between_programs_)) {
    keep_part();
    return !ended;  // to its very end
  }
  if (!change && is_stopped()) return false;
  if (!change && change.error().code != ErrorCode::another_program) {
    if (seen_.threads.empty()) return tl::unexpected(change.error());
    note(change.error().message);
    return false;
  }
  const bool is_another = is_between_programs_ || !change || *change == Change::program;
  if (is_another) {
    ++seen_.program;
    part_.clear();
    note(
        "the process executed another program: samples of that time are omitted; threads of the "
        "program before are listed as they were");
  } else {
    drop_changed();
    keep_part();
  }
  is_between_programs_ = !change;
  TRY(begin_part());
  return true;
}

/// Of the part: readings of variables that have gone, or are elsewhere.
void EbpfReader::drop_changed() {
  const auto now = subject_->definitions();
  bool are_all_there = true;
  for (std::size_t i = 0; i < part_definitions_.size(); ++i) {
    const bool is_there = std::ranges::any_of(now, [&](const Definition& definition) {
      return is_same(definition, part_definitions_[i]);
    });
    are_all_there &= is_there;
    if (!is_there)
      for (auto& [id, sighting] : part_) sighting.sets.erase(i);
  }
  if (!are_all_there)
    note("the process changed its libraries: samples of labels in those are omitted for that time");
}

void EbpfReader::keep_part() {
  for (auto& [id, sighting] : part_) {
    if (sighting.sets.empty()) continue;
    SeenThread about;
    about.id.tid = id.first;
    about.set_name(sighting.comm);
    KeptThread& kept = seen_.threads[id];
    if (std::exchange(kept.program, seen_.program) != seen_.program) kept.sets.clear();
    for (auto& [index, sighted] : sighting.sets) {
      KernelReading& reading = sighted.reading;
      const Definition& definition = part_definitions_[index];
      const std::size_t place = place_of(definition);
      const auto before = kept.sets.find(place);
      if (before != kept.sets.end() && !reading.complete &&
          (before->second.evidence == Evidence::sampled ||
           is_worse(reading.set, before->second.set)))
        continue;
      ThreadLabels labels = labels_of(*subject_, Mode::ebpf, about, definition);
      labels.evidence = reading.complete ? Evidence::sampled : Evidence::unproven;
      labels.set = std::move(reading.set);
      kept.sets.insert_or_assign(place, std::move(labels));
    }
  }
  part_.clear();
}

/// Index in seen_.definitions.
std::size_t EbpfReader::place_of(const Definition& definition) {
  auto& all = seen_.definitions;
  const auto found = std::ranges::find_if(
      all, [&](const Definition& other) { return is_same(other, definition); });
  if (found != all.end()) return static_cast<std::size_t>(found - all.begin());
  all.push_back(definition);
  return all.size() - 1;
}

Result<void> EbpfReader::gather(Clock::time_point end) {
  for (auto now = Clock::now(); now < end && !is_stopped(); now = Clock::now()) {
    const auto left = std::chrono::ceil<milliseconds>(end - now);
    TRY(sampler_->sampler().poll(left, [&](std::span<const std::byte> bytes) {
      const auto sample = bpf::parse_sample(bytes);
      // Older ones lay in the buffer since the last reading.
      if (sample && sampler_->concerns(*sample) && sample->head.time_ns >= seen_.begin_ns)
        take(*sample);
    }));
  }
  return {};
}

/// One that lacked something may lack less the next time.
bool EbpfReader::SightedSet::is_of(const bpf::SampledSet& set) const {
  return reading.complete && head.state == set.head.state &&
         head.slot_address == set.head.slot_address && head.slot == set.head.slot &&
         std::ranges::equal(content, set.content);
}

void EbpfReader::take(const bpf::Sample& sample) {
  if (!wanted(options_, sample.head.tid)) return;
  const ThreadKey id{sample.head.tid, sample.head.start_time_ns};
  const auto [entry, is_first_of_part] = part_.try_emplace(id);
  Sighting& sighting = entry->second;
  sighting.comm = sample.comm();
  // A later sample takes the place of one that has been paid for.
  std::size_t replacing = seen_.bytes_left;
  const bool is_first = is_first_of_part && !seen_.threads.contains(id);
  std::size_t& budget = is_first ? seen_.bytes_left : replacing;
  for (const bpf::SampledSet& set : sample.sets) {
    if (set.head.definition >= part_definitions_.size()) continue;
    const auto before = sighting.sets.find(set.head.definition);
    const bool is_sighted = before != sighting.sets.end();
    if (is_sighted && before->second.is_of(set)) continue;
    auto reading = sampler_->decode(set, sample.head.thread_pointer, &budget);
    if (is_sighted && !reading.complete &&
        (before->second.reading.complete || is_worse(reading.set, before->second.reading.set)))
      continue;
    sighting.sets.insert_or_assign(
        set.head.definition,
        SightedSet{std::move(reading), set.head, {set.content.begin(), set.content.end()}});
  }
}

void EbpfReader::note(std::string text) {
  if (std::ranges::find(seen_.notes, text) == seen_.notes.end())
    seen_.notes.push_back(std::move(text));
}

void EbpfReader::report_losses(Snapshot& snapshot) {
  const bpf::SamplerCounters now = sampler_->sampler().counters();
  const auto since = [&](std::uint64_t bpf::SamplerCounters::*counter) {
    return now.*counter - counted_.*counter;
  };
  if (const auto lost = since(&bpf::SamplerCounters::lost))
    snapshot.notes.push_back(
        fmt::format("{} of {} samples were lost: they came faster than vitrine could read them",
                    lost, since(&bpf::SamplerCounters::samples)));
  if (const auto cut = since(&bpf::SamplerCounters::cut))
    snapshot.notes.push_back(fmt::format("{} label parts did not fit in their sample", cut));
  if (const auto faults = since(&bpf::SamplerCounters::faults))
    snapshot.notes.push_back(
        fmt::format("{} label parts were not resident when they were sampled", faults));
  counted_ = now;
}

}  // namespace vitrine::observe
