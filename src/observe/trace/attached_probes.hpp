// AttachedProbes: the probes that a trace is attached to, in files and in what processes have loaded.
//
// Each call adds the sites of files that are new to it, and attaches to them. In a trace of one process the kernel
// passes the fires of that process alone, as long as it has a main thread: watch_main_thread() attaches anew without
// the kernel's filter.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/notes.hpp"
#include "base/result.hpp"
#include "bpf/tracer.hpp"
#include "observe/probes/probes.hpp"
#include "observe/trace/files.hpp"
#include "observe/trace/plan.hpp"
#include "observe/trace/reduction.hpp"
#include "observe/trace/trace.hpp"

namespace vitrine::observe {

class AttachedProbes {
 public:
  using Files = std::vector<std::shared_ptr<const ProbeFile>>;

  /// What it keeps of a process.
  struct OfProcess {
    std::set<sandbox::FileIdentity> loaded_twice;  ///< what has been noted as such
    unsigned waits = 0;                            ///< looks that left modules to the next one
  };

  /// What of modules to leave to the next look: those that have not started so far.
  enum class Unstarted : std::uint8_t { attach, leave };

  /// `functions`: the plan's patterns of functions. `alone`: the process, if the trace is of one alone, without
  /// what it forks. `reduction`: null if fires are not added up. `notes` gets what could not be attached to, and
  /// what fires only in part. What is taken by reference, span or pointer must outlive this.
  AttachedProbes(const TraceOptions& options, TracePlan plan,
                 std::vector<probe::FunctionPattern> functions, std::optional<pid_t> alone,
                 bpf::Tracer& tracer, std::span<const query::Selected> selected,
                 TraceReduction* reduction, Notes& notes);

  /// Attaches to files, wherever they are loaded. `found` is called with each file that has probes, and
  /// its path, before they fire. Errors: as ProbeFiles::open() and bpf::Tracer::attach(); interrupted.
  Result<void> attach_files(
      std::span<const std::string> paths,
      const std::function<void(const ProbeFile&, const std::string& path)>& found);

  /// Attaches to what a process has loaded, and returns the files that are new. Errors: not_found (it has
  /// ended), and as bpf::Tracer::attach().
  Result<Files> attach_process(pid_t pid, OfProcess& its, Unstarted unstarted);

  /// Call it often while that one process lives: attaches anew when its main thread has ended.
  void watch_main_thread();
  /// Another thread of that one process has executed a program: attaches anew.
  void main_thread_replaced();

  /// Takes all away.
  void detach() { attachment_.detach(); }

  /// The sites, and what each means.
  [[nodiscard]] const TracePlan& plan() const { return plan_; }
  /// Whether the kernel tests only a part of the condition of the plan's program with this number.
  [[nodiscard]] bool is_left_over(std::uint32_t program) const { return left_over_[program]; }
  /// Whether a file with this inode was added.
  [[nodiscard]] bool has_file(std::uint64_t inode) const { return inodes_.contains(inode); }
  /// The patterns of TraceOptions::modules that no file has matched.
  [[nodiscard]] std::vector<std::string> absent_modules() const { return modules_.absent(); }

 private:
  using Clock = std::chrono::steady_clock;

  /// A file, and the sites in it.
  struct Planned {
    std::shared_ptr<const ProbeFile> file;
    std::vector<bpf::AttachSite> sites;
  };

  void add(const std::shared_ptr<const ProbeFile>& file, bool counts_all,
           std::vector<Planned>& planned);
  Result<void> attach(std::span<const Planned> planned);
  bool attach_again();
  Result<void> set_programs();
  void note_unset_semaphores(OfProcess& its, std::span<const ProbeModule> modules);

  const TraceOptions& options_;
  TracePlan plan_;
  std::optional<pid_t> alone_;
  bpf::Tracer& tracer_;
  std::span<const query::Selected> selected_;
  TraceReduction* reduction_;
  Notes& notes_;
  ModuleChoice modules_;
  ProbeFiles files_;
  std::set<std::uint64_t> inodes_;
  std::set<sandbox::FileIdentity> guarded_;  ///< of them, those with semaphores
  bpf::Attachment attachment_;
  std::size_t programs_set_ = 0;
  std::vector<bool> left_over_;  ///< by program
  // With `alone_`:
  std::vector<Planned> attached_;            ///< to be attached to again
  Clock::time_point next_look_at_thread_{};  ///< at its main thread
  bool is_filtered_ = true;                  ///< by the kernel, as long as it has a main thread
};

}  // namespace vitrine::observe
