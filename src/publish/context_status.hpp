// Messages of context::Status, put together without allocating.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <type_traits>

#include "vitrine/context.hpp"

namespace vitrine::context {

/// A status whose message is `parts`, one after the other.
inline Status failure(Errc code, std::initializer_list<std::string_view> parts) noexcept {
  char text[Status::max_message];
  std::size_t size = 0;
  for (const std::string_view part : parts) {
    const std::size_t room = sizeof text - size;
    const std::size_t taken = part.size() < room ? part.size() : room;
    if (taken != 0) std::memcpy(text + size, part.data(), taken);
    size += taken;
  }
  return {code, {text, size}};
}

inline Status no_memory() noexcept {
  return {Errc::out_of_memory, "not enough memory for the process context"};
}

/// A number as decimal digits.
class Decimal {
 public:
  explicit Decimal(std::uint64_t number) noexcept {
    do {
      text_[--first_] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number != 0);
  }
  [[nodiscard]] std::string_view view() const noexcept {
    return {text_ + first_, sizeof text_ - first_};
  }

 private:
  char text_[20];
  std::size_t first_ = sizeof text_;
};

/// The description of an errno value.
class ErrorText {
 public:
  explicit ErrorText(int error) noexcept : view_(chosen(strerror_r(error, text_, sizeof text_))) {}
  ErrorText(const ErrorText&) = delete;
  ErrorText& operator=(const ErrorText&) = delete;
  [[nodiscard]] std::string_view view() const noexcept { return view_; }

 private:
  /// glibc's strerror_r returns the text, that of POSIX fills the buffer.
  template <class Returned>
  const char* chosen(Returned returned) noexcept {
    if constexpr (std::is_pointer_v<Returned>)
      return returned;
    else
      return returned == 0 ? text_ : "unknown error";
  }

  char text_[96] = {};
  std::string_view view_;
};

}  // namespace vitrine::context
