// What `vitrine profile` is asked for.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/profile/sending.hpp"
#include "cli/profile/view.hpp"
#include "cli/shell/options.hpp"
#include "observe/profile/profiling.hpp"

namespace vitrine::cli {

/// How is sampled: rates, measures, stacks, names. Of `vitrine profile` and `vitrine agent`.
class SamplingOptions {
 public:
  /// Measures and rates; then the rest.
  void define(CLI::App& app);
  /// Puts the options into `options` and `naming`. Errors: usage.
  Result<void> take(observe::ProfilingOptions& options,
                    std::optional<std::chrono::milliseconds>& naming) const;

 private:
  unsigned frequency_ = 99;
  bool on_cpu_ = false;
  bool off_cpu_ = false;
  bool preempted_ = false;
  bool wakers_ = false;
  bool no_kernel_ = false;
  bool no_symbols_ = false;
  bool verify_unwind_ = false;
  std::size_t stack_bytes_ = observe::ProfilingOptions().stack_bytes;
  std::optional<std::size_t> buffer_mib_;
  std::size_t stack_depth_ = observe::ProfilingOptions().stack_depth;
  std::optional<std::chrono::milliseconds> min_block_;
  std::string unwind_;
  std::optional<std::chrono::milliseconds> naming_;
};

class ProfileRequest {
 public:
  /// The options of the command line.
  void define(CLI::App& app);
  /// Makes the values below from the options. Errors: usage.
  Result<void> take();

  observe::ProfilingOptions options;
  ProfileView view;
  SendingOptions sending;
  std::optional<std::chrono::milliseconds> time;        ///< nothing: until the end of all, or ^C
  bool is_bounded = false;                              ///< --duration was given
  std::optional<std::chrono::milliseconds> naming;      ///< nothing: as the other options have it
  std::optional<std::chrono::milliseconds> refreshing;  ///< of --watch
  std::optional<std::chrono::milliseconds> every;       ///< of --continuous

  /// Whether files are written at all; and whether in places or over files of other users, which
  /// only root can.
  [[nodiscard]] bool writes_files() const;
  [[nodiscard]] bool writes_elsewhere() const;
  /// What is profiled, as it was given.
  [[nodiscard]] std::string subject() const;

 private:
  [[nodiscard]] Result<void> check_continuous() const;
  Result<void> check_watch();

  ProcessOptions processes_;
  bool exec_ = false;
  bool stacks_ = true;
  SamplingOptions sampling_;
};

}  // namespace vitrine::cli
