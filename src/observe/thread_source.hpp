// ThreadSource: the threads of a process, and which of them ran nothing while they were read.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "observe/seen_thread.hpp"
#include "target/process.hpp"

namespace vitrine::observe {

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

  /// One answer for each thread of the last list().
  virtual Result<std::vector<Since>> since_listed() = 0;
};

/// By two passes of the BPF task iterator (docs/formats/custom-labels.md, "Evidence"). Errors: as
/// bpf::ThreadIterator::open.
Result<std::unique_ptr<ThreadSource>> bpf_thread_source(const target::Process& process);

/// By /proc alone: slower, and it needs the right to trace the process. `process` must outlive it.
std::unique_ptr<ThreadSource> proc_thread_source(const target::Process& process);

}  // namespace vitrine::observe
