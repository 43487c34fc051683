// What is made of a profile, whether it was just taken or is a file: which samples, with what
// hidden, in which formats, tables or summaries.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/profile/outputs.hpp"
#include "cli/profile/sending.hpp"
#include "cli/profile/text.hpp"
#include "cli/shell/options.hpp"
#include "observe/profile/profiling.hpp"
#include "profile/encode.hpp"
#include "profile/select.hpp"

namespace vitrine::cli {

/// --filter, and --redact with what belongs to it.
class FilterOption {
 public:
  void define(CLI::App& app);
  /// Errors: usage.
  Result<void> take();

  /// Only the samples that --filter wants, then with what --redact covers hidden: what is not to be
  /// shown can be filtered by.
  [[nodiscard]] profile::Profile select(profile::Profile taken) const;
  [[nodiscard]] const Redaction& redaction() const { return redaction_; }
  /// Notes each key of --redact that nothing in what was selected has, if there was a sample.
  void report_unmet() const {
    if (has_looked_) redact_.report_unmet();
  }
  /// What --filter wants; null: all.
  [[nodiscard]] const std::shared_ptr<const profile::Filter>& only() const { return only_; }

 private:
  void look_at_keys(const profile::Profile& taken) const;

  std::string filter_;
  std::shared_ptr<const profile::Filter> only_;  ///< null: all
  mutable RedactOptions redact_;                 ///< of which keys have met something
  mutable bool has_looked_ = false;
  Redaction redaction_;
};

void define_group_by(CLI::App& app, std::vector<std::string>& keys);

/// -o, --format, --group-by, --top, and what else the formats take.
class ProfileView {
 public:
  void define(CLI::App& app);
  /// Without what is for one profile that the user waits for: --format, --top.
  void define_continuous(CLI::App& app);
  /// Makes the values below from the options. Errors: usage.
  Result<void> take();

  profile::EncodeOptions encoding;
  std::vector<ProfileOutput> outputs;
  std::vector<std::string> top;  ///< keys of the table; empty: none is wanted
  bool sees_starts = false;      ///< as in ProfileTextOptions

  [[nodiscard]] profile::Profile select(profile::Profile taken) const;
  [[nodiscard]] const std::vector<std::string>& paths() const { return paths_; }
  [[nodiscard]] const Redaction& redaction() const { return filter_.redaction(); }
  void report_unmet() const { filter_.report_unmet(); }
  [[nodiscard]] bool has_filter() const { return filter_.only() != nullptr; }
  /// Has samples that the view does not show left out from the start, as far as they can be known then; and
  /// those added up that differ in no more than their time, where no output shows it. `every`: of profiles that
  /// begin so often.
  void spare(observe::ProfilingOptions& options,
             std::optional<std::chrono::milliseconds> every) const;

 private:
  void define_output(CLI::App& app);
  void define_encoding(CLI::App& app);

  std::vector<std::string> paths_;
  std::vector<profile::Encoding> formats_;
  FilterOption filter_;
};

/// Writes the outputs, sends it by `sender` (which may be null), and prints the table, or the
/// summary where nothing else is wanted. Returns an ExitCode.
int show_profile(const profile::Profile& selected, const ProfileView& view,
                 const std::string& title, ProfileSender* sender);

}  // namespace vitrine::cli
