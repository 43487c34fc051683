// ptrace mode: each thread is stopped briefly and read by itself.
#pragma once

#include <cstddef>

#include "observe/labels/labels.hpp"
#include "observe/labels/subject.hpp"

namespace vitrine::observe {

// Reading one slot of one thread by itself: for threads that are stopped, or that a batched reading
// could not prove.

/// The labels that `definition` has in the thread whose thread pointer is `thread_pointer`, as its
/// memory is now. Reads the key map again when a record needs it.
Result<format::LabelSet> read_directly(Subject& subject, const Definition& definition,
                                       Address thread_pointer, std::size_t* bytes_left);

/// The slot's address; nullopt when that thread has not allocated it.
Result<std::optional<Address>> slot_address(Subject& subject, const Definition& definition,
                                            Address thread_pointer);

/// Whether a thread has no memory at its thread pointer, where its slots could not be read: a detached thread of musl
/// unmaps its stack, and what is thread-local with it, before it ends. False where memory does not come.
bool has_unmapped_its_own(Subject& subject, Address thread_pointer);

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
