#include "observe/ptrace_reader.hpp"

#include <algorithm>

#include "observe/direct_reading.hpp"
#include "observe/thread_labels.hpp"
#include "target/stopped_threads.hpp"

namespace vitrine::observe {
namespace {

constexpr int seize_attempts = 5;

}  // namespace

Result<std::unique_ptr<LabelReader>> PtraceReader::open(int pid, LabelOptions options) {
  auto subject = TRY(Subject::open(pid, options.limits));
  return std::unique_ptr<LabelReader>(new PtraceReader(std::move(subject), std::move(options)));
}

std::vector<DefinitionInfo> PtraceReader::definitions() const {
  return describe(subject_->definitions());
}

Result<Snapshot> PtraceReader::read(std::chrono::milliseconds) {
  auto change = subject_->refresh();
  for (int attempt = 0; attempt < seize_attempts; ++attempt) {
    TRY(change);
    if (subject_->definitions().empty()) return tl::unexpected(subject_->why_none());
    auto snapshot = visit_threads();
    if (!snapshot) return snapshot;
    change = subject_->refresh_definitions();
    if (change && *change == Change::none) return snapshot;
  }
  return fail(ErrorCode::interrupted,
              "the process changed its libraries or its program during each of several readings",
              "try again");
}

Result<Snapshot> PtraceReader::visit_threads() {
  auto listed = TRY(target::threads(subject_->process().proc_dir()));
  std::vector<SeenThread> threads;
  std::vector<pid_t> tids;
  for (const target::Thread& thread : listed) {
    if (!wanted(options_, thread.id.tid)) continue;
    SeenThread& seen = threads.emplace_back();
    seen.id = thread.id;
    seen.set_name(thread.comm);
    tids.push_back(thread.id.tid);
  }

  Snapshot snapshot;
  std::size_t bytes_left = limits::within_hard_caps(options_.limits).bytes_per_snapshot;
  const auto definitions = subject_->definitions();
  target::visit_stopped(
      subject_->process(), tids, options_.stop_deadline, options_.stop,
      [&](std::size_t index, const Result<Address>& tp) {
        if (!tp && tp.error().code == ErrorCode::not_found) return;  // it ended meanwhile
        for (std::size_t i = 0; i < definitions.size(); ++i) {
          ThreadLabels& labels =
              snapshot.threads.emplace_back(labels_of(*subject_, Mode::ptrace, threads[index], i));
          if (tp) {
            labels.evidence = Evidence::stopped;
            labels.set = read_directly(*subject_, definitions[i], *tp, &bytes_left);
          } else {
            labels.set = tl::unexpected<Error>(tp.error());
          }
        }
      });
  const auto earlier = [](const ThreadLabels& left, const ThreadLabels& right) {
    return left.tid < right.tid;
  };
  std::stable_sort(snapshot.threads.begin(), snapshot.threads.end(), earlier);  // as listed
  snapshot.notes = subject_->notes();
  return snapshot;
}

}  // namespace vitrine::observe
