// EventLabels: the labels of threads that fire a probe or are sampled. It gives the kernel the place
// of the labels of each process, and decodes the label sets that records carry.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bpf/event.hpp"
#include "bpf/target_maps.hpp"
#include "observe/events/decoded_sets.hpp"
#include "observe/events/lacking_keys.hpp"
#include "observe/labels/kernel_labels.hpp"
#include "observe/labels/subject.hpp"
#include "observe/process/registry.hpp"
#include "query/subject.hpp"
#include "sandbox/work_budget.hpp"
#include "target/memory_reader.hpp"

namespace vitrine::observe {

/// What the kernel calls the file that a process executes.
std::optional<vitrine_executable> executable_of(int descriptor);

struct LabelsLook;

/// Where a process has its labels, as it was looked at last: the part of its ObservedProcess that
/// EventLabels needs.
struct ProcessLabels {
  std::shared_ptr<LabelsLook> look;  ///< null: not looked at, nor was its parent
  bool own = false;                  ///< false: `look` is its parent's
  pid_t kernel_tgid = 0;
  /// When the kernel was given it, on the clock of records; 0: not yet.
  std::uint64_t given_ns = 0;
  /// Its threads are not asked for: only what they have displayed when they wake those that are.
  bool is_bystander = false;

  /// A child is like its parent until it is looked at.
  [[nodiscard]] ProcessLabels child() const { return {look, false, 0, given_ns, is_bystander}; }
};

class EventLabels {
 public:
  /// `table` must outlive this. `selected`: what the kernel looks up itself, in the tracer's order.
  EventLabels(bpf::ProcessTable& table, limits::LabelLimits limits,
              std::vector<query::Selected> selected);
  ~EventLabels();

  /// Events of any number of processes wait while one is looked at: a look may cost little processor
  /// time at first. Processes that need more are looked at again when the others have had their
  /// turn: see take_unfinished().
  void expect_many_processes() { first_look_ = std::chrono::milliseconds{100}; }

  /// Finds out where a process has its labels, and gives that to the kernel; again when it may have
  /// changed. `kernel_tgid`: 0: not known.
  void look_at(pid_t pid, ProcessLabels& its, pid_t kernel_tgid = 0);

  /// A process that needed more than one look, if it is time for the next; nothing: none.
  std::optional<pid_t> take_unfinished();

  /// Gives the kernel what is likely of processes that will execute a file.
  void assume(sandbox::FileMemory& file);

  /// The process has ended, and no other one has its PID.
  void exited(const ProcessLabels& its);

  /// Of a record, by the sets that it carries. `its`: of its process, which is looked at if that has
  /// not happened yet; null: not observed. `has_pid`: that process still has its PID. Good until the
  /// next call.
  const DisplayedLabels& of(const vitrine_event_header& header, std::span<const bpf::FireSet> sets,
                            ProcessLabels* its, bool has_pid = true);

  /// Looks, twice a second, whether processes that lack names of keys have declared them since: those that have. What
  /// was displayed before must be asked for again, and look_at() gives the kernel what it selects labels by.
  std::vector<pid_t> take_named();

  /// What could not be done since the last call.
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  /// Where some process displays labels: what is left of a Definition for the kernel.
  struct Place {
    format::Format format;
    target::TlsLocation location;
  };
  std::chrono::nanoseconds budget_of(const LabelsLook* look);
  void charge(LabelsLook& look, const sandbox::WorkBudget& budget);
  void skip(LabelsLook& look);
  static bool take_image(LabelsLook& look);
  [[nodiscard]] bool has_other_names(const LabelsLook& look) const;
  [[nodiscard]] bool lacks_selected(const vitrine_target& target) const;
  void note_key_maps(LabelsLook& look);
  void configure(ProcessLabels& its);
  void assume(const vitrine_executable& executable, vitrine_target target);
  bool is_place(std::uint32_t number, const Definition& definition) const;
  std::optional<std::uint32_t> number_of(const Definition& definition);
  vitrine_target target_of(Subject& subject);
  bool take_keys(std::span<const bpf::FireSet> sets);
  bool add(LabelsLook& look, const vitrine_event_header& header, const bpf::FireSet& set,
           bool keeps);
  static bool publishes_nothing(const LabelsLook& look, const vitrine_event_header& header);
  void require_all(const LabelsLook& look, std::span<const bpf::FireSet> sets);
  void merge(const Result<format::LabelSet>& set);
  void complain(const std::string& error);

  bpf::ProcessTable& table_;
  limits::LabelLimits limits_;
  std::vector<query::Selected> selected_;
  /// What the slow ones may cost together: what is sampled meanwhile waits. Comes back slowly.
  target::TimeoutBudget slow_looks_{std::chrono::seconds(2)};
  std::chrono::milliseconds first_look_{10'000};
  std::set<pid_t> unfinished_;            ///< processes to go on with
  LackingKeys<LabelsLook> lacking_keys_;  ///< that records have, or the kernel selects labels by
  std::chrono::steady_clock::time_point next_key_look_{};
  /// What is kept of the modules of all processes: bytes.
  std::shared_ptr<std::size_t> held_bytes_ = std::make_shared<std::size_t>(0);
  std::vector<Place> places_;  ///< by number, which the kernel sends with each set
  DecodedSets decoded_;
  std::uint32_t epoch_ = 0;  ///< of decoded_
  std::uint64_t last_id_ = 0;
  DecodedSets::Keys keys_;  ///< of the event at hand
  std::vector<std::string> notes_;
  DisplayedLabels shown_;
};

}  // namespace vitrine::observe
