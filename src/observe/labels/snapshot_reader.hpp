// Snapshot mode: all threads at one time, none of them stopped (docs/formats/custom-labels.md,
// "Evidence").
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "observe/labels/escalation.hpp"
#include "observe/labels/slot_reading.hpp"
#include "observe/labels/subject.hpp"
#include "target/process.hpp"

namespace vitrine::observe {

// ThreadSource: the threads of a process, and which of them ran nothing while they were read.

/// What became of a thread since it was listed.
enum class Since : std::uint8_t {
  rested,  ///< it ran nothing: what was read meanwhile is what a suspended thread shows
  ran,     ///< it ran, or perhaps ran
  ended,
};

class ThreadSource {
 public:
  virtual ~ThreadSource() = default;

  /// The threads that have not ended, ascending by tid. Errors: not_found (no process any more).
  virtual Result<std::vector<SeenThread>> list() = 0;

  /// One for each thread of the last list().
  virtual Result<std::vector<Since>> since_listed() = 0;
};

/// By two passes of the BPF task iterator (docs/formats/custom-labels.md, "Evidence"). Errors: as
/// bpf::ThreadIterator::open.
Result<std::unique_ptr<ThreadSource>> bpf_thread_source(const target::Process& process);

/// By /proc alone: slower, and it needs the right to trace the process. `process` must outlive it.
std::unique_ptr<ThreadSource> proc_thread_source(const target::Process& process);

class SnapshotReader final : public LabelReader {
 public:
  static Result<std::unique_ptr<LabelReader>> open(int pid, LabelOptions options);

  std::vector<DefinitionInfo> definitions() const override;
  Result<Snapshot> read(std::chrono::milliseconds window) override;

 private:
  SnapshotReader(std::unique_ptr<Subject> subject, LabelOptions options)
      : subject_(std::move(subject)), options_(std::move(options)) {
    begin_program();
  }

  void begin_program();
  Result<std::vector<SeenThread>> list();
  Result<std::vector<Since>> since_listed(std::span<const SeenThread> threads,
                                          const Readings& readings);
  Snapshot assemble(std::span<const SeenThread> threads, Readings readings,
                    std::span<const Since> since, std::size_t& bytes_left);

  std::unique_ptr<Subject> subject_;
  LabelOptions options_;
  std::string without_bpf_;  ///< why, if so
  std::unique_ptr<ThreadSource> source_;
  std::unique_ptr<SlotReader> slots_;
  std::unique_ptr<Escalation> escalation_;
};

}  // namespace vitrine::observe
