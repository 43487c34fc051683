// Snapshot mode: all threads at a moment, none of them stopped (docs/formats/custom-labels.md,
// "Evidence").
#pragma once

#include "observe/ladder.hpp"
#include "observe/slot_reading.hpp"
#include "observe/subject.hpp"
#include "observe/thread_source.hpp"

namespace vitrine::observe {

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
  std::unique_ptr<Ladder> ladder_;
};

}  // namespace vitrine::observe
