// ptrace mode: each thread is stopped for the microseconds that reading it takes.
#pragma once

#include "observe/labels.hpp"
#include "observe/subject.hpp"

namespace vitrine::observe {

class PtraceReader final : public LabelReader {
 public:
  static Result<std::unique_ptr<LabelReader>> open(int pid, LabelOptions options);

  std::vector<DefinitionInfo> definitions() const override;
  Result<Snapshot> read(std::chrono::milliseconds window) override;

 private:
  PtraceReader(std::unique_ptr<Subject> subject, LabelOptions options)
      : subject_(std::move(subject)), options_(std::move(options)) {}

  Result<Snapshot> visit_threads();

  std::unique_ptr<Subject> subject_;
  LabelOptions options_;
};

}  // namespace vitrine::observe
