// vitrine/observe/result.hpp: a value, or the reason for its absence.
//
//   auto reading = vitrine::observer::read_labels(pid);
//   if (!reading) std::fprintf(stderr, "%s\n", reading.error().message.c_str());
//
// Functions of <vitrine/observe/…> report errors by Result and throw nothing themselves; std::bad_alloc
// passes through. C++17.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace vitrine::observer {
inline namespace v1 {

/// Why something failed. Later versions may add codes.
enum class ErrorCode : std::uint8_t {
  failed,         ///< for the reason that the message gives
  usage,          ///< an option, or a combination of them, is invalid
  not_permitted,  ///< the kernel refused; the message names the missing capability
  not_found,      ///< no such process, thread, file or probe
  malformed,      ///< bytes of a target or a file break the rules of their format
  unsupported,    ///< this kernel, build or target cannot do it
  limit,          ///< a bound on what is taken from a target was reached
  interrupted,    ///< stopped by the caller
  changing,  ///< the target changed it during each attempt to read it: another attempt may succeed
  another_program,  ///< the process has executed another program: open it again
};

/// "failed", "usage", "not-permitted", …
std::string_view to_string(ErrorCode code) noexcept;

struct Error {
  ErrorCode code = ErrorCode::failed;
  std::string message;  ///< what failed, where and why: without a full stop
  std::string remedy;   ///< what the user can do about it; may be empty
};

/// A T, or an Error. `value()`, `*` and `->` need one that is ok(); `error()` one that is not.
template <class Type>
class [[nodiscard]] Result {
 public:
  Result(Type value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  [[nodiscard]] Type& value() & noexcept { return *std::get_if<0>(&state_); }
  [[nodiscard]] const Type& value() const& noexcept { return *std::get_if<0>(&state_); }
  [[nodiscard]] Type&& value() && noexcept { return std::move(*std::get_if<0>(&state_)); }
  Type& operator*() & noexcept { return value(); }
  const Type& operator*() const& noexcept { return value(); }
  Type&& operator*() && noexcept { return std::move(*this).value(); }
  Type* operator->() noexcept { return std::get_if<0>(&state_); }
  const Type* operator->() const noexcept { return std::get_if<0>(&state_); }

  [[nodiscard]] const Error& error() const noexcept { return *std::get_if<1>(&state_); }

 private:
  std::variant<Type, Error> state_;
};

/// Done, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}

  [[nodiscard]] bool ok() const noexcept { return ok_; }
  explicit operator bool() const noexcept { return ok_; }
  [[nodiscard]] const Error& error() const noexcept { return error_; }

 private:
  Error error_;
  bool ok_ = true;
};

}  // namespace v1
}  // namespace vitrine::observer
