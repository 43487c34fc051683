#include "observe/labels/ptrace_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/memory.hpp"
#include "observe/labels/subject.hpp"
#include "target/stopped_threads.hpp"

namespace vitrine::observe {
namespace {

constexpr std::size_t max_windows = 1024;

}  // namespace

Result<std::optional<Address>> slot_address(Subject& subject, const Definition& definition,
                                            Address thread_pointer) {
  if (thread_pointer == 0)
    return fail(ErrorCode::unsupported, "its thread pointer is unknown",
                "run vitrine with CAP_BPF and CAP_PERFMON, or in ptrace mode");
  return target::evaluate(definition.location, subject.process().machine(), thread_pointer,
                          subject.process().memory());
}

Result<format::LabelSet> read_directly(Subject& subject, const Definition& definition,
                                       Address thread_pointer, std::size_t* bytes_left) {
  const auto slot = TRY(slot_address(subject, definition, thread_pointer));
  if (!slot) return format::LabelSet{};
  WindowMemory memory(subject.process().memory(), max_windows);
  const Address record = TRY(format::record_of(definition.format, memory, *slot));
  return subject.decode(definition, memory, record, thread_pointer, bytes_left);
}

bool has_unmapped_its_own(Subject& subject, Address thread_pointer) {
  if (thread_pointer == 0) return false;
  target::ProcessMemory& memory = subject.process().memory();
  const auto word = memory.read_value<Address>(thread_pointer, "thread pointer");
  return !word && !memory.gave_up() && memory.refusal() == 0;
}

namespace {

constexpr int longer = 5;  // that threads get the second time to stop

/// Why no thread could be stopped, where something else traces them all, or that is not permitted. Nothing: other
/// reasons, which each thread has.
std::optional<Error> refusal_of_all(const target::Process& process,
                                    std::span<const ThreadLabels> threads) {
  const bool is_refused =
      !threads.empty() && std::ranges::all_of(threads, [](const ThreadLabels& thread) {
        return !thread.set && thread.set.error().code == ErrorCode::not_permitted;
      });
  if (!is_refused) return std::nullopt;
  const auto tracer = target::tracer_of(process.proc_dir(), threads.front().tid);
  if (!tracer || tracer->pid == 0) return threads.front().set.error();
  return Error{ErrorCode::failed,
               fmt::format("process {}: no thread can be stopped: process {} traces it",
                           process.pid(), tracer->name()),
               "read it in snapshot or ebpf mode, or end that debugger or strace"};
}

}  // namespace

Result<std::unique_ptr<LabelReader>> PtraceReader::open(int pid, LabelOptions options) {
  auto subject = TRY(Subject::open(pid, options.limits, sandbox::WorkBudget(options.stop)));
  return std::unique_ptr<LabelReader>(new PtraceReader(std::move(subject), std::move(options)));
}

std::vector<DefinitionInfo> PtraceReader::definitions() const {
  return describe(*subject_);
}

Result<Snapshot> PtraceReader::read(std::chrono::milliseconds) {
  return subject_->read_unchanged(options_.stop, [&](Change) { return visit_threads(); });
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
  const auto take = [&](std::size_t index, const Result<Address>& tp) {
    if (!tp && tp.error().code == ErrorCode::not_found) return;  // it ended meanwhile
    if (tp && has_unmapped_its_own(*subject_, *tp)) return;
    for (std::size_t i = 0; i < definitions.size(); ++i) {
      ThreadLabels& labels = snapshot.threads.emplace_back(
          labels_of(*subject_, Mode::ptrace, threads[index], subject_->definitions()[i]));
      if (tp) {
        labels.evidence = Evidence::stopped;
        labels.set = read_directly(*subject_, definitions[i], *tp, &bytes_left);
      } else {
        labels.set = tl::unexpected<Error>(tp.error());
      }
    }
  };
  std::map<std::size_t, Result<Address>> late;  // by index
  const auto take_or_note = [&](std::size_t index, const Result<Address>& tp) {
    if (!tp && tp.error().code == ErrorCode::failed)
      late.insert_or_assign(index, tp);
    else
      late.erase(index), take(index, tp);
  };
  target::visit_stopped(subject_->process(), tids, options_.stop_deadline, options_.stop,
                        take_or_note);
  if (!late.empty()) {  // on a busy machine others need longer, too
    std::vector<std::size_t> indexes;
    std::vector<pid_t> again;
    for (const auto& [index, error] : late) {
      indexes.push_back(index);
      again.push_back(tids[index]);
    }
    target::visit_stopped(
        subject_->process(), again, longer * options_.stop_deadline, options_.stop,
        [&](std::size_t i, const Result<Address>& tp) { take_or_note(indexes[i], tp); });
  }
  for (const auto& [index, error] : late) take(index, error);
  if (auto refusal = refusal_of_all(subject_->process(), snapshot.threads))
    return tl::unexpected(std::move(*refusal));
  const auto earlier = [](const ThreadLabels& left, const ThreadLabels& right) {
    return left.tid < right.tid;
  };
  std::stable_sort(snapshot.threads.begin(), snapshot.threads.end(), earlier);  // as listed
  snapshot.notes = subject_->notes();
  if (!late.empty())
    snapshot.notes.push_back(fmt::format("{} of {} threads did not stop in time and were not read",
                                         late.size(), tids.size()));
  return snapshot;
}

}  // namespace vitrine::observe
