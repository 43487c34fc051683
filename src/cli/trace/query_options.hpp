// What is traced of fires, and how they are added up: options that a trace has wherever it runs.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "base/redaction.hpp"
#include "base/result.hpp"
#include "cli/trace/reduction.hpp"
#include "export/signal.hpp"
#include "observe/trace/program.hpp"

namespace vitrine::cli {

class TraceQueryOptions {
 public:
  void define(CLI::App& app);

  /// `is_measured`: what is added up goes somewhere as metrics. Errors: usage, which names the option.
  Result<observe::TraceQuery> take(bool is_measured, Redaction redaction) const;

  [[nodiscard]] bool stacks() const { return stacks_; }
  [[nodiscard]] bool exemplars() const { return exemplars_; }
  [[nodiscard]] bool is_spans() const { return reduction_.is_spans(); }
  /// --slower.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> slower() const { return slower_; }
  /// Of each key of --by: how many have series of their own.
  [[nodiscard]] std::size_t label_values() const;

 private:
  Result<void> take_slower(observe::TraceQuery& query) const;
  static Result<void> take_spans(observe::TraceQuery& query);

  std::string where_;
  CLI::Option* where_given_ = nullptr;
  std::string show_;
  ReductionOptions reduction_;
  std::optional<std::chrono::nanoseconds> slower_;
  bool exemplars_ = false;
  bool stacks_ = false;
  std::size_t label_values_ = 0;  ///< 0: not given
  std::size_t string_bytes_ = 256;
};

/// What a trace sends: what it adds up as metrics, pairs as spans, single fires as log records.
exporter::Signal signal_of(const observe::TraceQuery& query);

}  // namespace vitrine::cli
