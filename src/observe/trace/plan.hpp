// TracePlan: which sites of which files a trace attaches to, and what to report when there are
// none, or when the options are invalid.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "bpf/nop_policy.hpp"
#include "bpf/tracer.hpp"
#include "observe/probes/functions.hpp"
#include "observe/probes/probes.hpp"
#include "observe/trace/program.hpp"
#include "observe/trace/trace.hpp"
#include "probe/probe.hpp"

namespace vitrine::observe {

/// Whether the options fit together. Errors: usage.
Result<void> check(const TraceOptions& options);

// What to report when no probe is what the user asked for.

/// `patterns`: those that match nothing. `seen`: "provider:name" of the probes that there are.
/// `missing`: what is known of functions.
Error no_such_probe(const TraceOptions& options, const std::vector<std::string>& patterns,
                    const std::set<std::string>& seen, const MissingFunctions& missing);

/// A site that is attached to.
struct TracedSite {
  const ProbeFile* file = nullptr;
  Address address = 0;  ///< in the file's own address space
  std::uint32_t program = 0;
  probe::SiteUse use = probe::SiteUse::fire;
  std::string_view function{};  ///< around it, if it was asked for
  bool is_refused = false;      ///< by the kernel
};

class TracePlan {
 public:
  /// `query` must outlive this.
  TracePlan(std::span<const std::string> patterns, const TraceQuery& query, bool force);

  /// What to attach to in a file; nothing when it was added before. Sites that cannot be are left
  /// out, and `notes` has the reason. `process`: the one that is traced, by which instances of DOF
  /// providers are named; 0: there may be others. `counts_all`: whether the kernel counts in semaphores
  /// that have Site::counted_first, too; where it does not, their sites are attached to without them.
  std::vector<bpf::AttachSite> add(const std::shared_ptr<const ProbeFile>& file, int process,
                                   bool counts_all, std::vector<std::string>& notes);
  [[nodiscard]] bool knows(const ProbeFile& file) const {
    return file.file != nullptr && known_.contains(file.file->identity());
  }

  [[nodiscard]] const std::vector<std::unique_ptr<TraceProgram>>& programs() const {
    return programs_;
  }
  [[nodiscard]] const TracedSite& site(std::uint32_t number) const { return sites_[number]; }
  /// The kernel does not attach to it.
  void refuse(std::uint32_t number);
  [[nodiscard]] std::size_t numbers() const { return sites_.size(); }  ///< given to site()
  [[nodiscard]] std::size_t sites() const { return fires_; }           ///< that fire

  /// "provider:name" of all probes of files that were added, wanted or not: to list what there is.
  [[nodiscard]] const std::set<std::string>& seen() const { return seen_; }

  /// Why patterns of functions match nothing.
  [[nodiscard]] const MissingFunctions& missing() const { return missing_; }

  /// The patterns that no probe of files that were added matches; of a latency: its probes.
  [[nodiscard]] std::vector<std::string> unmatched() const;
  /// All of them.
  [[nodiscard]] std::vector<std::string> wanted() const;
  /// Of a latency: the end of it that has no site, while the other has; else empty.
  [[nodiscard]] std::string_view missing_end() const;

 private:
  void match(const probe::Probe& probe, int process);
  [[nodiscard]] std::set<Address> calls_without_end(const ProbeFile& file) const;
  std::optional<TraceProgram::Role> role_of(const probe::Probe& probe, int process) const;
  bpf::AttachSite take(const ProbeFile& file, const probe::Site& site, std::uint32_t program,
                       unsigned skip, std::uint64_t semaphore_offset);
  void add_enabled_sites(const ProbeFile& file, const probe::Probe& probe, std::uint32_t program,
                         bool counts_all, std::vector<bpf::AttachSite>& sites,
                         std::vector<std::string>& notes);
  std::optional<unsigned> skip_of(const ProbeFile& file, const probe::Site& site,
                                  const std::string& name, std::vector<std::string>& notes) const;
  std::uint32_t program_of(std::unique_ptr<TraceProgram> program);

  std::vector<probe::Pattern> patterns_;  ///< of a latency: of its ends
  std::vector<probe::Pattern> starts_;    ///< of a latency
  const TraceQuery& query_;
  bool force_;
  bpf::NopClass nops_;
  std::set<sandbox::FileIdentity> known_;
  std::vector<std::shared_ptr<const ProbeFile>> files_;
  std::vector<std::unique_ptr<TraceProgram>> programs_;
  std::map<std::string, std::uint32_t> by_identity_;
  std::vector<TracedSite> sites_;
  std::size_t fires_ = 0;  ///< of them
  std::set<std::string> seen_;
  MissingFunctions missing_;
  /// All patterns, and whether a probe matches.
  struct Wanted {
    std::string text;
    probe::Pattern pattern;
    bool matched = false;
  };
  std::vector<Wanted> wanted_;
};

}  // namespace vitrine::observe
