// vitrine/status.hpp: what became of a call of <vitrine/labels.hpp> or <vitrine/context.hpp>.
//
//   if (labels::Scope scope{tenant, name}; !scope.ok()) log(scope.status().message());
//   if (auto done = vitrine::context::publish({{"service.name", "shop"}}); !done) log(done.message());
//
// One type for both: vitrine::labels::Status and vitrine::context::Status are names of it. C++17;
// nothing here allocates or throws, and every function may be called in signal handlers.
#pragma once

#include <vitrine/export.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#pragma push_macro("Status")  // of <X11/Xlib.h>
#undef Status

namespace vitrine {
inline namespace VITRINE_DETAIL_ABI_NAMESPACE {

/// Why a call failed. Numbers are stable; later versions may add some.
enum class Errc : std::uint8_t {
  ok = 0,
  none = ok,  ///< another name for it

  bad_key = 1,          ///< a labels::Key that is not ok()
  value_too_large = 2,  ///< a label's value of more than labels::max_value_bytes
  set_too_large = 3,    ///< more than labels::max_labels, or about 250 KiB in all
  out_of_memory = 4,    ///< of the heap, of a mapping, or of the thread's arena
  thread_exiting = 5,   ///< the thread's labels were taken down already

  invalid_attribute = 6,  ///< of a context: an empty key, or text that is not UTF-8
  too_large = 7,          ///< of a context: strings 4,096 bytes, resource 16,383, all of it 64 KiB
  unsupported = 8,        ///< the kernel, or a seccomp filter, refuses what publishing needs
  shared_memory = 9,  ///< a vfork child, whose memory is its parent's: it must not publish there
};

/// The reason as a clause without a full stop: "out of memory". A string literal.
constexpr std::string_view to_string(Errc code) noexcept {
  switch (code) {
    case Errc::ok:
      return "no error";
    case Errc::bad_key:
      return "a key is longer than 1,024 bytes, or there are more than 65,000 different keys";
    case Errc::value_too_large:
      return "a value is longer than 64 KiB";
    case Errc::set_too_large:
      return "more than 4,096 labels, or 250 KiB of them, those inherited included";
    case Errc::out_of_memory:
      return "out of memory";
    case Errc::thread_exiting:
      return "the thread is ending";
    case Errc::invalid_attribute:
      return "an attribute has an empty key, or text that is not UTF-8";
    case Errc::too_large:
      return "an attribute, or the context, is larger than the format allows";
    case Errc::unsupported:
      return "the system refuses what publishing needs";
    case Errc::shared_memory:
      return "the process lives in its parent's memory (vfork)";
  }
  return "unknown error";
}

/// The outcome of a call: a code, and a message that may be more specific than the code. When a call
/// fails, what was published before stays.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(Errc code) noexcept : code_(code) {}
  /// A message over max_message bytes is cut.
  Status(Errc code, std::string_view message) noexcept
      : code_(code),
        size_(static_cast<std::uint8_t>(message.size() < max_message ? message.size()
                                                                     : max_message)) {
    if (size_ != 0) std::memcpy(message_, message.data(), size_);
    message_[size_] = '\0';
  }

  /// True: the call did what was asked.
  explicit operator bool() const noexcept { return code_ == Errc::ok; }
  [[nodiscard]] Errc code() const noexcept { return code_; }
  /// For comparisons and switch statements.
  operator Errc() const noexcept { return code_; }

  /// What failed and why, without a full stop: never empty on an error. When nothing failed: empty,
  /// or what was left out (an environment variable that breaks its own syntax). Followed by a NUL;
  /// valid while this object lives.
  [[nodiscard]] std::string_view message() const noexcept {
    if (size_ == 0 && code_ != Errc::ok) return to_string(code_);
    return {message_, size_};
  }

  static constexpr std::size_t max_message = 253;

  // The codes under this name, too: labels::Status::bad_key.
  static constexpr Errc ok = Errc::ok;
  static constexpr Errc bad_key = Errc::bad_key;
  static constexpr Errc value_too_large = Errc::value_too_large;
  static constexpr Errc set_too_large = Errc::set_too_large;
  static constexpr Errc out_of_memory = Errc::out_of_memory;
  static constexpr Errc thread_exiting = Errc::thread_exiting;

 private:
  Errc code_ = Errc::ok;
  std::uint8_t size_ = 0;
  char message_[max_message + 1] = {};
};

}  // namespace VITRINE_DETAIL_ABI_NAMESPACE
}  // namespace vitrine

#pragma pop_macro("Status")
