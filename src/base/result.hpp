// Result<T>: a value, or an error that names what failed and the next step.
#pragma once

#include <cerrno>
#include <functional>
#include <string>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

namespace vitrine {

/// Why something failed. The command turns each into its exit code (cli/shell/report.hpp).
enum class ErrorCode {
  failed,         ///< the work failed, for a reason the message gives
  usage,          ///< the caller asked for something invalid
  not_permitted,  ///< the kernel refused; the message names the missing capability
  not_found,      ///< no such process, thread or file
  malformed,      ///< bytes from a target or a file break the rules of their format
  unsupported,    ///< understood, but this kernel, build or target cannot do it
  limit,          ///< a bound of base/limits.hpp was hit
  interrupted,    ///< the user, or the caller, stopped it
  changing,  ///< the target changed it during each attempt to read it: another attempt may succeed
  /// The process executes another program by now than the one that was opened: it must be opened again.
  another_program,
};

/// What an errno means that a system call left, most often one with a path or a process.
constexpr ErrorCode code_of_errno(int number) {
  switch (number) {
    case ENOENT:
    case ENOTDIR:
    case ESRCH:
      return ErrorCode::not_found;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::not_permitted;
    default:
      return ErrorCode::failed;
  }
}

/// An error with its context. `message` has what happened and where, as a sentence without a full
/// stop; `remedy`, when not empty, has what the user can do about it.
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

namespace detail {

/// The error of a result, as the error of any other result: moved from a temporary, else copied.
template <class R>
auto error_of(R&& result) {
  return tl::unexpected<typename std::remove_cvref_t<R>::error_type>(
      std::forward<R>(result).error());
}
template <class R>
tl::unexpected<Error> error_of(R&& result, const std::string& doing) {
  return fail_while(doing, std::forward<R>(result).error());
}

/// The value of a result: moved from a temporary; of a variable, a reference to it.
template <class R>
auto value_of(R&& result) {
  using Value = typename std::remove_cvref_t<R>::value_type;
  if constexpr (std::is_void_v<Value>)
    return;
  else if constexpr (std::is_lvalue_reference_v<R>)
    return std::ref(*result);
  else
    return Value(*std::move(result));  // NOLINT(bugprone-move-forwarding-reference): R is a value
}

}  // namespace detail
}  // namespace vitrine

// TRY(expression) is the value of a Result, or of any tl::expected. If that holds an error, TRY
// returns the error from the enclosing function:
//
//   auto value = TRY(read(address));
//   TRY(write(address, value));
//   auto labels = TRY_WHILE("reading labels", read_labels());   // fail_while
//
// The first argument of TRY_WHILE is evaluated only if there is an error.
//
// TRY moves the value out of a temporary. TRY of a variable is a std::reference_wrapper of its
// value and copies nothing: `const Layout& layout = TRY(layout_);`.
//
// A TRY is an initializer, a statement, the operand of return, or precedes a member access. It
// is not one argument of several: clang before 19 does not destroy the others when TRY returns.
//
// TRY is a statement expression of GNU C++, which all supported compilers have.
#define TRY(...) \
  VITRINE_DETAIL_TRY(VITRINE_DETAIL_TRY_JOIN(vitrine_detail_result_, __COUNTER__), (__VA_ARGS__))
#define TRY_WHILE(doing, ...)                                                                     \
  VITRINE_DETAIL_TRY(VITRINE_DETAIL_TRY_JOIN(vitrine_detail_result_, __COUNTER__), (__VA_ARGS__), \
                     doing)

#define VITRINE_DETAIL_TRY(result, expression, ...)                                            \
  __extension__({                                                                              \
    auto&& result = expression;                                                                \
    if (!result) [[unlikely]]                                                                  \
      return ::vitrine::detail::error_of(std::forward<decltype(result)>(result) __VA_OPT__(, ) \
                                             __VA_ARGS__);                                     \
    ::vitrine::detail::value_of(std::forward<decltype(result)>(result));                       \
  })
#define VITRINE_DETAIL_TRY_JOIN(left, right) VITRINE_DETAIL_TRY_JOIN_EXPANDED(left, right)
#define VITRINE_DETAIL_TRY_JOIN_EXPANDED(left, right) left##right
