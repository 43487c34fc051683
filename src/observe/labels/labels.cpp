#include "observe/labels/labels.hpp"

#include <algorithm>

#include "base/stop.hpp"
#include "format/redact.hpp"
#include "observe/labels/ebpf_reader.hpp"
#include "observe/labels/ptrace_reader.hpp"
#include "observe/labels/snapshot_reader.hpp"
#include "observe/labels/subject.hpp"

namespace vitrine::observe {

std::string_view name(Mode mode) {
  switch (mode) {
    case Mode::snapshot:
      return "snapshot";
    case Mode::ebpf:
      return "ebpf";
    case Mode::ptrace:
      return "ptrace";
  }
  return "unknown";
}

std::string_view name(Evidence evidence) {
  switch (evidence) {
    case Evidence::proven:
      return "proven";
    case Evidence::serial:
      return "serial";
    case Evidence::stopped:
      return "stopped";
    case Evidence::sampled:
      return "sampled";
    case Evidence::unproven:
      return "unproven";
  }
  return "unknown";
}

Result<std::unique_ptr<LabelReader>> LabelReader::open(int pid, LabelOptions options) {
  TRY(require_not_stopped(options.stop, "the reader of labels"));
  switch (options.mode) {
    case Mode::snapshot:
      return SnapshotReader::open(pid, std::move(options));
    case Mode::ebpf:
      return EbpfReader::open(pid, std::move(options));
    case Mode::ptrace:
      return PtraceReader::open(pid, std::move(options));
  }
  return fail(ErrorCode::usage, "no such reading mode");
}

Snapshot redacted(Snapshot snapshot, const Redaction& redaction) {
  for (ThreadLabels& thread : snapshot.threads)
    if (thread.set) thread.set = format::redacted(std::move(*thread.set), redaction);
  return snapshot;
}

std::vector<DefinitionInfo> describe(const Subject& subject) {
  std::vector<DefinitionInfo> described;
  for (const Definition& definition : subject.definitions()) {
    const KeyMaps::Choice& choice = subject.key_maps().choice(definition);
    described.push_back({definition.format, definition.module,
                         target::describe(definition.location), choice.header, choice.problem});
  }
  return described;
}

bool wanted(const LabelOptions& options, pid_t tid) {
  return options.tids.empty() ||
         std::find(options.tids.begin(), options.tids.end(), tid) != options.tids.end();
}

ThreadLabels labels_of(Subject& subject, Mode mode, const SeenThread& thread,
                       const Definition& source) {
  return {subject.process().pid(), thread.id.tid, thread.name(),      source.format,
          source.module,           mode,          Evidence::unproven, format::LabelSet{}};
}

}  // namespace vitrine::observe
