// SampledProgram: a process while it executes one program, as its samples need it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bpf/wire/event.h"
#include "observe/process/facts.hpp"
#include "observe/profile/code_history.hpp"
#include "observe/profile/code_reader.hpp"
#include "profile/profile.hpp"
#include "symbol/jit_symbols.hpp"
#include "target/proc_file.hpp"
#include "target/process_events.hpp"

namespace vitrine::observe {

struct SampledProgram {
  pid_t pid = 0;               ///< in our pid namespace; 0: not visible there
  std::uint64_t image = 0;     ///< program_image; 0: not known
  std::uint64_t begun_ns = 0;  ///< CLOCK_MONOTONIC; 0: before it was seen
  std::uint64_t found_ns = 0;  ///< when a look at the process found it; 0: events have reported it
  ProcessFacts facts;
  target::FileDescriptor proc_dir;  ///< none: it was gone before it could be looked at
  /// Of its mount namespace, O_PATH: its own, or that of the process that has forked it. Null: not
  /// known.
  std::shared_ptr<const target::FileDescriptor> root;
  CodeHistory code;
  symbol::JitSymbols jit;  ///< of ProfileNames

  // Of ProfileBuilder:
  std::uint64_t generation = 0;                 ///< of the table that the indices are of
  profile::Index index = profile::none;         ///< of the process
  std::uint64_t version = 0;                    ///< of the code that these are of:
  std::vector<profile::Index> mapping_indices;  ///< of each region

  // Of SampledPrograms:
  /// Null: the image is certain. Else it was read of the process, which may have executed the next program by then.
  std::unique_ptr<const ProcessFacts> facts_before;
  std::uint64_t image_read_ns = 0;
  bool looked_at = false;
  bool learnt = false;  ///< what it declares of itself was read since the last tidy(), or by it
  std::chrono::steady_clock::time_point read_at{};
  std::chrono::milliseconds budget{};  ///< until an unknown address makes us look again
  bool stale = false;                  ///< it may have mapped something that was not reported
  bool sampled = true;                 ///< since the last tidy()
  bool gone = false;                   ///< at the last tidy()
};

/// What a process executes, the newest first, and what it executed before: samples of that may come
/// late. The part of its ObservedProcess that SampledPrograms needs.
using ProgramHistory = std::deque<std::shared_ptr<SampledProgram>>;

/// Keeps the histories of processes up to date.
class SampledPrograms {
 public:
  using Program = std::shared_ptr<SampledProgram>;

  explicit SampledPrograms(const RuleLimits& limits = {}) : reader_(limits, true) {}

  /// That of a sample. Looks at the process if its program is not known. `has_user_code`: of the
  /// sample; without, the kernel may have been about to start the program. `has_pid`: the process still
  /// has its PID.
  Program of(const vitrine_event_header& header, bool has_user_code, ProgramHistory& its,
             bool has_pid);

  /// The code that it had then.
  CodeHistory::Code code_of(SampledProgram& program, std::uint64_t time_ns);

  /// An address was where the program has no code. Returns whether it has more code now.
  bool look_again(SampledProgram& program);

  /// Now, as it may be gone when its first sample comes; and opens what it has mapped.
  void look_at(pid_t pid, ProgramHistory& its);
  /// That of a process that another one, with the history `parent`, has just forked.
  static ProgramHistory forked(pid_t child, const ProgramHistory& parent);

  // As events report it:
  void executed(const target::ProcessEvent& event, ProgramHistory& its);
  void mapped(const target::ProcessEvent& event, ProgramHistory& its);
  /// Some were lost: what it has mapped is read at its next sample.
  static void missed(ProgramHistory& its);

  /// CLOCK_MONOTONIC: samples of before then do not come any more.
  void taken_until(std::uint64_t time_ns) { taken_until_ns_ = time_ns; }

  // Between profiles:

  /// In which groups it is now; it may not have been looked at.
  static void read_groups(SampledProgram& program);
  /// Learns anew what the process declares of itself.
  static void learn(SampledProgram& program);
  /// `learns`: does that. Returns whether it has ended, though no event reported it, or not in time.
  bool tidy(ProgramHistory& its, bool learns);
  /// Forgets files that no process maps any more.
  void forget_unused() { reader_.forget_unused(); }

  /// Of the code that was read since the last call.
  [[nodiscard]] std::vector<GoFile> take_go_files() { return reader_.take_go_files(); }

  /// Why some of what is known is less than it could be, each once.
  [[nodiscard]] std::vector<std::string> take_problems();

 private:
  Program read(pid_t pid);
  Program keep(ProgramHistory& its, Program program,
               std::uint64_t time_ns = ~std::uint64_t{0}) const;
  bool look(SampledProgram& program);
  bool refresh(SampledProgram& program, bool is_unreported);
  CodePlaces places_of(const SampledProgram& program);

  CodeReader reader_;
  std::shared_ptr<const target::FileDescriptor> our_root_;
  std::uint64_t taken_until_ns_ = 0;
  std::set<std::string> refusals_;
  std::size_t reported_ = 0;  // of the reader's problems
};

}  // namespace vitrine::observe
