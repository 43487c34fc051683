#include "observe/thread_source.hpp"

#include <unistd.h>

#include <algorithm>
#include <optional>

#include "bpf/thread_iterator.hpp"
#include "target/rest_watch.hpp"

namespace vitrine::observe {
namespace {

/// The kernel's nanoseconds since boot as /proc counts start times.
std::uint64_t clock_ticks(std::uint64_t nanoseconds) {
  static const auto per_second = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  return nanoseconds / (1'000'000'000 / per_second);
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
    std::vector<Since> answers;
    answers.reserve(before_.size());
    auto now = after_.begin();
    for (const vitrine_thread& then : before_) {
      while (now != after_.end() && now->tid < then.tid) ++now;
      const bool same =
          now != after_.end() && now->tid == then.tid && now->start_time_ns == then.start_time_ns;
      const bool rested = same && then.at_rest && now->at_rest && now->switches == then.switches;
      answers.push_back(!same ? Since::ended : rested ? Since::rested : Since::ran);
    }
    return answers;
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
    tids_.clear();
    runs_.clear();
    for (const target::Thread& thread : found) {
      SeenThread& seen = threads.emplace_back();
      seen.id = thread.id;
      seen.set_name(thread.comm);
      tids_.push_back(thread.id.tid);
      runs_.push_back(watch_.begin(thread.id.tid));
      seen.at_rest = runs_.back().has_value();
      seen.runs = runs_.back().value_or(0);
    }
    watch_.keep_only(tids_.begin(), tids_.end());
    return threads;
  }

  Result<std::vector<Since>> since_listed() override {
    std::vector<Since> answers;
    answers.reserve(tids_.size());
    for (std::size_t i = 0; i < tids_.size(); ++i) {
      const bool rested = runs_[i] && watch_.still_rests(tids_[i], *runs_[i]);
      answers.push_back(rested ? Since::rested : Since::ran);
    }
    return answers;
  }

 private:
  const target::Process& process_;
  target::RestWatch watch_;
  std::vector<pid_t> tids_;
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

}  // namespace vitrine::observe
