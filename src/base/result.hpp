// Result<T>: a value, or an error that tells the user what failed and what to do next.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace vitrine {

/// Why something failed. The command turns each into its exit code (cli/exit_code.hpp).
enum class ErrorCode {
  failed,         ///< the work failed, for a reason the message gives
  usage,          ///< the caller asked for something that makes no sense
  not_permitted,  ///< the kernel refused; the message names the missing capability
  not_found,      ///< no such process, thread or file
  malformed,      ///< bytes from a target or a file break the rules of their format
  unsupported,    ///< understood, but this kernel, build or target cannot do it
  limit,          ///< a bound of base/limits.hpp was hit
  interrupted,    ///< the user stopped it, or the target went away in the middle
};

/// An error with its context. `message` says what happened and where, as a sentence without a full
/// stop; `remedy`, when not empty, says what the user can do about it.
struct Error {
  ErrorCode code = ErrorCode::failed;
  std::string message;
  std::string remedy;

  bool operator==(const Error&) const = default;
};

template <class T>
using Result = tl::expected<T, Error>;

/// Makes the error branch of any Result.
inline tl::unexpected<Error> fail(ErrorCode code, std::string message, std::string remedy = {}) {
  return tl::unexpected<Error>(Error{code, std::move(message), std::move(remedy)});
}

/// Passes an error on with what was being done when it happened: "reading labels: no such thread".
inline tl::unexpected<Error> fail_while(const std::string& doing, Error error) {
  error.message = doing + ": " + error.message;
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace vitrine
