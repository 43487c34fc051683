#include "observe/labels/ebpf_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bpf/thread_iterator.hpp"
#include "observe/labels/subject.hpp"

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

constexpr milliseconds longest_wait{100};  // between two looks at whether to stop

}  // namespace

Result<std::unique_ptr<LabelReader>> EbpfReader::open(int pid, LabelOptions options) {
  auto subject = TRY(Subject::open(pid, options.limits, sandbox::WorkBudget(options.stop)));
  std::unique_ptr<EbpfReader> reader(new EbpfReader(std::move(subject), std::move(options)));
  TRY(reader->begin_program());
  return std::unique_ptr<LabelReader>(std::move(reader));
}

Result<void> EbpfReader::begin_program() {
  sampler_ = TRY(SubjectSampler::open(*subject_));
  counted_ = {};
  return sampler_->sampler().start(options_.sample_hz);
}

std::vector<DefinitionInfo> EbpfReader::definitions() const {
  return describe(subject_->definitions());
}

Result<Snapshot> EbpfReader::read(milliseconds window) {
  if (TRY(subject_->refresh(sandbox::WorkBudget(options_.stop))) == Change::program)
    TRY(begin_program());
  if (subject_->definitions().empty()) return tl::unexpected(subject_->why_none());
  TRY(sampler_->set_definitions());

  auto sightings = TRY(gather(window));

  Snapshot snapshot;
  snapshot.notes = subject_->notes();
  report_losses(snapshot);
  for (auto& [id, sighting] : sightings) {
    SeenThread thread;
    thread.id.tid = id.first;
    thread.set_name(sighting.comm);
    for (auto& [definition, reading] : sighting.sets) {
      ThreadLabels& labels =
          snapshot.threads.emplace_back(labels_of(*subject_, Mode::ebpf, thread, definition));
      labels.evidence = reading.complete ? Evidence::sampled : Evidence::unproven;
      labels.set = std::move(reading.set);
    }
  }
  // Samples that were taken with knowledge that no longer held show whatever lay there.
  const auto change = subject_->refresh_definitions(sandbox::WorkBudget(options_.stop));
  if (change && *change == Change::none) return snapshot;
  if (!change && change.error().code == ErrorCode::not_found) return snapshot;  // to its very end
  if (TRY(change) == Change::program) TRY(begin_program());
  snapshot.threads.clear();
  snapshot.notes.push_back(
      "the process changed its libraries or its program: samples of that time are omitted");
  return snapshot;
}

Result<EbpfReader::Sightings> EbpfReader::gather(milliseconds window) {
  Sightings sightings;
  std::size_t bytes_left = limits::within_hard_caps(options_.limits).bytes_per_snapshot;
  const auto begin = Clock::now();
  const auto begin_ns = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(begin.time_since_epoch()).count());
  for (auto now = begin; now < begin + window; now = Clock::now()) {
    if (options_.stop != nullptr && options_.stop->load()) break;
    const auto left = std::chrono::ceil<milliseconds>(begin + window - now);
    TRY(sampler_->sampler().poll(
        std::min(left, longest_wait), [&](std::span<const std::byte> bytes) {
          const auto sample = bpf::parse_sample(bytes);
          // Older ones lay in the buffer since the last reading.
          if (sample && sampler_->concerns(*sample) && sample->head.time_ns >= begin_ns)
            take(*sample, sightings, bytes_left);
        }));
  }
  return sightings;
}

void EbpfReader::take(const bpf::Sample& sample, Sightings& into, std::size_t& bytes_left) {
  if (!wanted(options_, sample.head.tid)) return;
  const auto [entry, first] = into.try_emplace({sample.head.tid, sample.head.start_time_ns});
  Sighting& sighting = entry->second;
  sighting.comm = sample.comm();
  // A later sample takes the place of one that has been paid for.
  std::size_t replacing = bytes_left;
  std::size_t& budget = first ? bytes_left : replacing;
  for (const bpf::SampledSet& set : sample.sets) {
    if (set.head.definition >= subject_->definitions().size()) continue;
    auto reading = sampler_->decode(set, sample.head.thread_pointer, &budget);
    const auto before = sighting.sets.find(set.head.definition);
    if (before != sighting.sets.end() && before->second.complete && !reading.complete) continue;
    sighting.sets.insert_or_assign(set.head.definition, std::move(reading));
  }
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
