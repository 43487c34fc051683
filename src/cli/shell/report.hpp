// What a command reports beside its results: exit codes, errors, notes.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace vitrine::cli {

// The command's exit codes: part of its contract, so that scripts know what happened.

enum ExitCode : int {
  exit_done = 0,
  exit_failed = 1,  ///< the work failed, or a check did not hold
  exit_usage = 2,
  exit_not_permitted = 3,
  exit_not_found = 4,  ///< no such process or file
  exit_interrupted = 130,
};

inline int exit_code(const Error& error) {
  switch (error.code) {
    case ErrorCode::usage:
      return exit_usage;
    case ErrorCode::not_permitted:
      return exit_not_permitted;
    case ErrorCode::not_found:
      return exit_not_found;
    case ErrorCode::interrupted:
      return exit_interrupted;
    case ErrorCode::failed:
    case ErrorCode::malformed:
    case ErrorCode::unsupported:
    case ErrorCode::limit:
    case ErrorCode::changing:
    case ErrorCode::another_program:
      break;
  }
  return exit_failed;
}

/// Of a command that would have ended with `status`, but could not deliver all: an interrupted one has not finished
/// cleanly either.
inline int exit_of_loss(int status) {
  return status == exit_done || status == exit_interrupted ? exit_failed : status;
}

/// Prints "vitrine: message" and, below it, the remedy; returns the exit code of the error.
int report(const Error& error);

/// Prints "vitrine: note: …".
void note(std::string_view text);

/// Whether a reading failed only because --duration was over (stop_after()); notes that.
bool is_end_of_duration(const Error& error);

// Wrong usage: the values that options take, and the errors that name the nearest.

// Choices: the values of an option that takes one of some words, as its placeholder names them.

/// Of "snapshot|ebpf|ptrace", or "pprof|otlp [pprof]"; empty: it takes something else.
std::vector<std::string> choices_of(std::string_view placeholder);

// Wrong usage, reported in one way: what is wrong, what was meant, and where to read on.

/// Looks for what `app` does not take at all: commands, options and values of enumerations that there
/// are not, and options without their value. CLI11 would take what follows a mistyped option for
/// something else, and complain about that. Errors: usage.
Result<void> check_words(const CLI::App& app, std::span<const std::string> words);

/// What CLI11 found wrong, of what `app` and the commands in it define.
Error usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace vitrine::cli
