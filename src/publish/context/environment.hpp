// Attributes of the process from its environment, and statuses with a message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <type_traits>

#include "publish/context/encoder.hpp"
#include "vitrine/context.hpp"

namespace vitrine::context {

// Messages of context::Status, put together without allocating.

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

// What is known about the process without configuration: defaults, and the OTEL_ environment
// variables.

/// A random UUID (version 4) as text.
struct InstanceId {
  char text[36];
  bool known;  ///< false: the kernel gave no random bytes
};

/// The resource that the environment variables describe: OTEL_RESOURCE_ATTRIBUTES (key=value,
/// comma-separated, percent-encoded, each value a string), then OTEL_SERVICE_NAME. One that breaks
/// its syntax anywhere is discarded as a whole, as the OpenTelemetry resource specification has it;
/// `discarded` is then set to what was wrong with it. False: no memory.
bool resource_from_environment(AttributeList& resource, const char*& discarded) noexcept;

/// VITRINE_THREAD_SCHEMA; empty: not set, or not valid UTF-8 (`discarded` is set). It refers to the
/// environment.
std::string_view thread_schema_from_environment(const char*& discarded) noexcept;

/// The defaults that publish() documents; without an instance id that is not known.
void set_defaults(AttributeList& resource, const InstanceId& instance_id) noexcept;

InstanceId random_uuid() noexcept;

}  // namespace vitrine::context
