// FireView: a fire with its values and labels, as conditions, reductions and users look at it.
#pragma once

#include <unordered_map>

#include "observe/events/event_labels.hpp"
#include "observe/probes/probes.hpp"
#include "observe/process/cgroups.hpp"
#include "observe/trace/plan.hpp"
#include "observe/trace/program.hpp"
#include "observe/trace/trace.hpp"

namespace vitrine::observe {

/// Displayed labels with some values hidden; those that come again and again are made once. All are forgotten
/// where there is no room for one more.
class RedactedLabels {
 public:
  /// Of sets that threads have in force at about one time; a target may make each as large as labels can be.
  static constexpr std::size_t max_sets = 4096, max_bytes = 16U << 20;

  /// Good until the next call.
  const DisplayedLabels& of(const DisplayedLabels& labels, const Redaction& redaction);

  /// What they take, about.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::unordered_map<std::uint64_t, DisplayedLabels> kept_;  ///< by id
  std::size_t bytes_ = 0;
  DisplayedLabels once_;
};

/// Good as long as what it is made of.
class FireView {
 public:
  /// As it was: what conditions ask.
  FireView(const bpf::Fire& fire, const TraceProgram& program, const TracedSite& site,
           const DisplayedLabels& labels);

  /// Makes it what may be shown. `labels`: its own, of which some values are hidden.
  void redact(const TraceProgram& program, const DisplayedLabels& labels,
              const Redaction& redaction);

  // What was found out about it beside; good as long as this.
  void take_origin(const Cgroup& cgroup);
  void take_stack(const std::vector<symbol::StackFrame>& frames);

  FireView(const FireView&) = delete;
  FireView& operator=(const FireView&) = delete;

  [[nodiscard]] const query::Fire& query() const { return query_; }

  [[nodiscard]] TraceEvent event(const TraceProgram& program) const;

 private:
  void take_ids();

  class Labels final : public query::Labels {
   public:
    explicit Labels(const format::LabelSet& set) : set_(&set) {}
    std::optional<std::string_view> value(std::string_view key) const override;

   private:
    const format::LabelSet* set_;
  };

  const bpf::Fire& fire_;
  const DisplayedLabels* fired_;
  Labels labels_;
  std::vector<probe::Value> values_;
  std::string comm_, trace_id_, span_id_;
  std::vector<std::string> stack_;
  query::Fire query_;
};

/// The start of the pair that `fire` is the end of, with its arguments.
PairStart start_of(const bpf::Fire& fire, const TraceProgram& program, const TracedSite& site,
                   const Redaction& redaction);

}  // namespace vitrine::observe
