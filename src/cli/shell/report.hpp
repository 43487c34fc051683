// What a command says beside its results: exit codes, errors, notes.
#pragma once

#include <string_view>

#include "base/result.hpp"

namespace vitrine::cli {

// The command's exit codes: part of its contract, so that scripts can tell what happened.

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
      break;
  }
  return exit_failed;
}

// What the command says beside its results: on standard error, one line each.

/// Prints "vitrine: message" and, below it, the remedy; returns the exit code of the error.
int report(const Error& error);

/// Prints "vitrine: note: …".
void note(std::string_view text);

}  // namespace vitrine::cli
