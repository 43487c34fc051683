// The process context: identifies this process (service, version, instance, environment …) to
// profilers and other readers outside it (OTEP-4719).
//
//   if (auto done = vitrine::context::publish({{"service.name", "shop"}, {"service.version",
//   "7"}});
//       !done)
//     std::fprintf(stderr, "%s\n", done.message().data());
//
// One context per process. Every function may be called from any thread at any time; calls are
// serialised, and a reader outside sees the context before or after a call, never a mixture.
// C++17; no function throws or needs exceptions. (Constructing an Attribute allocates, as std::string
// does, in the caller.) If memory runs out, or the kernel refuses a call, the Status reports the error,
// the published context stays unchanged, and the next call can succeed.
#pragma once

#include <vitrine/export.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace vitrine::context {

/// An attribute's value: text (UTF-8), a boolean, a 64-bit signed integer, a double, or an array of
/// one of these. Other types do not compile, including unsigned 64-bit integers: the format cannot
/// hold their upper half.
class Value {
  template <class T>
  static constexpr bool is_integer =
      std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char> &&
      !std::is_same_v<T, wchar_t> && !std::is_same_v<T, char16_t> && !std::is_same_v<T, char32_t> &&
      (std::is_signed_v<T> || sizeof(T) < sizeof(std::int64_t));

 public:
  using Variant = std::variant<std::string, bool, std::int64_t, double, std::vector<std::string>,
                               std::vector<bool>, std::vector<std::int64_t>, std::vector<double>>;

  Value(std::string text) : value_(std::move(text)) {}
  Value(std::string_view text) : value_(std::string(text)) {}
  Value(const char* text) : value_(std::string(text)) {}
  Value(std::nullptr_t) = delete;
  template <class T, std::enable_if_t<std::is_same_v<T, bool>, int> = 0>
  Value(T flag) : value_(flag) {}
  template <class T, std::enable_if_t<is_integer<T>, int> = 0>
  Value(T number) : value_(static_cast<std::int64_t>(number)) {}
  Value(float number) : value_(static_cast<double>(number)) {}
  Value(double number) : value_(number) {}
  Value(std::vector<std::string> texts) : value_(std::move(texts)) {}
  Value(std::vector<bool> flags) : value_(std::move(flags)) {}
  Value(std::vector<std::int64_t> numbers) : value_(std::move(numbers)) {}
  Value(std::vector<double> numbers) : value_(std::move(numbers)) {}

  const Variant& get() const { return value_; }
  bool operator==(const Value& other) const { return value_ == other.value_; }

 private:
  Variant value_;
};

/// A key (1 to 4,096 bytes of UTF-8) and its value. Names: OpenTelemetry semantic conventions.
struct Attribute {
  std::string key;
  Value value;
};

enum class Errc : std::uint8_t {
  none,               ///< done
  invalid_attribute,  ///< an empty key, or text that is not UTF-8
  too_large,          ///< a limit of the format: strings 4,096 bytes, resource 16,383, total 64 KiB
  unsupported,        ///< the kernel, or a seccomp filter, refuses a required system call
  shared_memory,      ///< a vfork child shares its parent's memory: it would replace that context
  out_of_memory,      ///< of the heap, or for the mapping
};

/// The result of a call. On an error the published context is unchanged. Allocates no memory.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  /// A message over max_message bytes is cut.
  Status(Errc code, std::string_view message) noexcept
      : code_(code),
        size_(static_cast<std::uint8_t>(message.size() < max_message ? message.size()
                                                                     : max_message)) {
    if (size_ != 0) std::memcpy(message_, message.data(), size_);
    message_[size_] = '\0';
  }

  explicit operator bool() const noexcept { return code_ == Errc::none; }
  [[nodiscard]] Errc code() const noexcept { return code_; }

  /// The failure and its reason, as a sentence without a full stop. Without a failure: empty, or a
  /// description of what was omitted (an environment variable with invalid syntax). Followed by a
  /// NUL; valid during the lifetime of this object.
  [[nodiscard]] std::string_view message() const noexcept { return {message_, size_}; }

  static constexpr std::size_t max_message = 253;

 private:
  Errc code_ = Errc::none;
  std::uint8_t size_ = 0;
  char message_[max_message + 1] = {};
};

/// The behaviour of a fork child. It never shows its parent's context: the kernel does not copy it.
enum class AtFork : std::uint8_t {
  republish,  ///< publishes at once: new process.pid, new service.instance.id if it was generated
  drop,       ///< publishes nothing until it calls publish() or update(), or uses a new label key
};

struct Options {
  /// Attributes of the process in addition to its resource (ProcessContext.attributes).
  std::vector<Attribute> attributes = {};
  /// Take OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME and VITRINE_THREAD_SCHEMA into account, with
  /// their values at publish().
  bool environment = true;
  AtFork at_fork = AtFork::republish;
  /// threadlocal.schema_version, by which readers recognise the thread records of this process
  /// (OTEP-4947). Empty: VITRINE_THREAD_SCHEMA, else "tlsdesc_v1_dev". No released reader accepts
  /// "tls_v1", the name that the OTEP intends for the same records.
  std::string thread_schema = {};
};

/// Publishes the context, replacing the previous one completely. The resource consists of the
/// following, in increasing priority (for equal keys the later one wins):
/// - defaults: service.name ("unknown_service:" and the executable's name), service.instance.id (a
///   random UUID, the same for the life of the process), process.pid, telemetry.sdk.name,
///   telemetry.sdk.language, telemetry.sdk.version
/// - OTEL_RESOURCE_ATTRIBUTES, then OTEL_SERVICE_NAME
/// - `resource`
VITRINE_EXPORT Status publish(std::vector<Attribute> resource = {}, Options options = {}) noexcept;

/// Adds these resource attributes to the published ones, replacing equal keys. Without a published
/// context, equivalent to publish().
VITRINE_EXPORT Status update(std::vector<Attribute> resource) noexcept;

/// Removes the published context and discards its content.
VITRINE_EXPORT void drop() noexcept;

}  // namespace vitrine::context
