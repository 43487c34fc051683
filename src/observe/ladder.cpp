#include "observe/ladder.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "observe/direct_reading.hpp"
#include "observe/serial_reading.hpp"
#include "target/stopped_threads.hpp"

namespace vitrine::observe {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int most_retries = 3;
constexpr std::size_t most_sharers = 64;  // more are too many to prove at once

// A thread that keeps a CPU busy is caught within a period. How many at once: each costs an event.
constexpr auto sample_period = 100us;
constexpr auto sample_deadline = 40ms;
constexpr std::size_t most_sampled = 64;

}  // namespace

/// The items of one climb that are still open.
struct Ladder::Work {
  std::span<const Unproven> items;
  std::vector<Climbed> results;
  std::vector<std::size_t> open;
  std::size_t& bytes_left;
  std::vector<std::string>& notes;

  void close(const std::vector<bool>& done) {
    open.erase(
        std::remove_if(open.begin(), open.end(), [&](std::size_t item) { return done[item]; }),
        open.end());
  }
};

Ladder::Ladder(Subject& subject, const LabelOptions& options)
    : subject_(subject), options_(options), rest_(subject.process().proc_dir()) {}

bool Ladder::cancelled() const {
  return options_.stop != nullptr && options_.stop->load();
}

std::vector<Climbed> Ladder::climb(std::span<const Unproven> unproven, std::size_t& bytes_left,
                                   std::vector<std::string>& notes) {
  Work work{unproven, {}, {}, bytes_left, notes};
  work.results.resize(unproven.size());
  for (std::size_t i = 0; i < unproven.size(); ++i) work.open.push_back(i);
  retry(work);
  sample(work);
  stop(work);
  settle(work);
  return std::move(work.results);
}

void Ladder::retry(Work& work) {
  std::uniform_int_distribution<int> jitter(20, 200);  // out of step with a periodic writer
  for (int attempt = 0; attempt < most_retries && !work.open.empty() && !cancelled(); ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(std::chrono::microseconds(jitter(random_)));
    std::vector<bool> done(work.items.size());
    for (const std::size_t item : work.open)
      done[item] = prove_once(work.items[item], work.results[item], work.bytes_left);
    work.close(done);
  }
}

/// By the serial of our own writer, or by /proc: the thread, and whoever shares its set, ran
/// nothing while it was read.
bool Ladder::prove_once(const Unproven& unproven, Climbed& into, std::size_t& bytes_left) {
  const Definition& definition = subject_.definitions()[unproven.definition];
  const Address tp = unproven.thread.thread_pointer;
  if (definition.format == format::Format::custom_labels_v1) {
    const auto slot = slot_address(subject_, definition, tp);
    if (slot && *slot) {
      std::size_t left = bytes_left;
      auto set = read_by_serial(subject_.process().memory(), **slot,
                                subject_.decode_context(definition, &left));
      if (set) {
        bytes_left = left;
        into = {Evidence::serial, std::move(*set)};
        return true;
      }
    }
  }

  if (unproven.sharers.size() > most_sharers) return false;
  std::vector<std::pair<pid_t, std::uint64_t>> resting;
  const auto watch = [&](pid_t tid) {
    const auto runs = rest_.begin(tid);
    if (runs) resting.emplace_back(tid, *runs);
    return runs.has_value();
  };
  if (!watch(unproven.thread.id.tid)) return false;
  if (!std::all_of(unproven.sharers.begin(), unproven.sharers.end(), watch)) return false;
  std::size_t left = bytes_left;
  auto set = read_directly(subject_, definition, tp, &left);
  for (const auto& [tid, runs] : resting)
    if (!rest_.still_rests(tid, runs)) return false;
  bytes_left = left;
  into = {Evidence::proven, std::move(set)};
  return true;
}

void Ladder::sample(Work& work) {
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
  if (auto told = sampler_->tell_definitions(); !told) {
    work.notes.push_back(told.error().message);
    return;
  }

  std::multimap<pid_t, std::size_t> wanted;  // tid → item
  for (const std::size_t item : work.open) {
    const pid_t tid = work.items[item].thread.id.tid;
    if (wanted.size() == most_sampled) break;
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
  // Who was not seen in all that time does not run, so it can be proven now.
  retry(work);
}

void Ladder::stop(Work& work) {
  if (work.open.empty() || !options_.may_stop || cancelled()) return;
  std::vector<pid_t> tids;
  for (const std::size_t item : work.open) tids.push_back(work.items[item].thread.id.tid);
  std::vector<bool> done(work.items.size());
  target::visit_stopped(
      subject_.process(), tids, options_.stop_deadline, options_.stop,
      [&](std::size_t index, const Result<Address>& tp) {
        const std::size_t item = work.open[index];
        if (!tp) {
          work.notes.push_back(tp.error().message);
          return;
        }
        const Definition& definition = subject_.definitions()[work.items[item].definition];
        work.results[item] = {Evidence::stopped,
                              read_directly(subject_, definition, *tp, &work.bytes_left)};
        done[item] = true;
      });
  work.close(done);
}

/// The best of several reads: two that agree, if there are any.
void Ladder::settle(Work& work) {
  for (const std::size_t item : work.open) {
    const Unproven& unproven = work.items[item];
    const Definition& definition = subject_.definitions()[unproven.definition];
    std::size_t left = 0;
    const auto read = [&] {
      left = work.bytes_left;
      return read_directly(subject_, definition, unproven.thread.thread_pointer, &left);
    };
    auto last = read();
    for (int attempt = 0; attempt < most_retries; ++attempt) {
      auto next = read();
      const bool agree = next == last;
      last = std::move(next);
      if (agree) break;
    }
    work.bytes_left = left;
    work.results[item] = {Evidence::unproven, std::move(last)};
  }
}

}  // namespace vitrine::observe
