// The process context under check: what a process publishes and how it changes, and the rules
// for it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/redaction.hpp"
#include "check/rule.hpp"
#include "format/process_context.hpp"
#include "format/thread_schema.hpp"
#include "observe/process/facts.hpp"
#include "target/process.hpp"

namespace vitrine::check {

// ContextSubject: what a process publishes of its process context, and how it changes while it
// is looked at.

/// A mapping that is called as a context's is.
struct ContextCandidate {
  target::Mapping mapping;
  Result<format::ContextHeader> header;
  std::optional<bool> forked;  ///< a fork copies it; nullopt: the kernel does not report it
};

struct ContextSubject {
  Redaction redaction;  ///< of what is reported
  std::vector<ContextCandidate> candidates;
  std::string search_problem;                  ///< why they could not be looked for
  std::optional<observe::ContextState> state;  ///< as it was read last
  std::optional<Error> problem;                ///< why it could not be read at the last look
  std::optional<format::ThreadSchema> schema;
  bool schema_in_resource = false;
  bool needs_schema = false;       ///< the process has slots of thread contexts
  bool has_records = false;        ///< a record was in force in one of them
  std::uint64_t started_ns = 0;    ///< of the process, by its CLOCK_BOOTTIME
  std::uint64_t tick_ns = 0;       ///< how exactly that is known
  std::uint64_t seen_ns = 0;       ///< when it was looked at last, by the same
  std::vector<std::int64_t> pids;  ///< of the process, in each namespace that it is in

  std::size_t looks = 0, updates = 0;
  std::string unstamped_change;  ///< content that changed, and its stamp did not; empty: none
  std::string key_map_change;    ///< a name in the key map that became another

  /// A value, for a person to read.
  [[nodiscard]] std::string shown(std::string_view key, const std::string& value) const {
    return redaction.covers_attribute(key) ? redaction.replacement(value) : value;
  }

  /// The candidate that was read; null: there is none.
  [[nodiscard]] const ContextCandidate* chosen() const;
  [[nodiscard]] bool there() const { return !candidates.empty(); }
};

/// Looks at one process again and again.
class ContextWatch {
 public:
  /// `process` must outlive this.
  explicit ContextWatch(target::Process& process);

  /// Errors: as ContextReader::refresh, those of the process alone (not_found, not_permitted).
  Result<void> look();

  [[nodiscard]] ContextSubject& subject() { return subject_; }

 private:
  void find_candidates();
  void take(const observe::ContextState& state);

  target::Process& process_;
  ContextSubject subject_;
  std::uint64_t to_its_clock_ns_ = 0;  ///< from CLOCK_BOOTTIME here to that of its time namespace
};

}  // namespace vitrine::check
