// The process context: identifies this process (service, version, instance, environment …) to
// profilers and other readers outside it (OTEP-4719).
//
//   if (auto done = vitrine::context::publish({{"service.name", "shop"}, {"service.version",
//   "7"}});
//       !done)
//     std::fprintf(stderr, "%s\n", done.message().data());
//
// One context per process. If another library, or another copy of this one, publishes one already, publish()
// adds a second one, and the Status has a message: readers use one of them, most of them the newest. A label key alone
// adds none: then labels are in label sets, and not in thread records. Every function may be called from any thread at
// any time; calls are serialised, and a reader outside sees the context before or after a call, never a mixture.
// C++17; no function throws or needs exceptions. (Constructing an Attribute allocates, as std::string
// does, in the caller.) If memory runs out, or the kernel refuses a call, the Status reports the error,
// the published context stays unchanged, and the next call can succeed.
#pragma once

#include <vitrine/export.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>
#include <vitrine/status.hpp>

// Attributes hold a std::string, of which libstdc++ has two layouts. A program with one and a library with
// the other do not link: the older one has a namespace of its own.
#if defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#define VITRINE_DETAIL_CONTEXT_NAMESPACE \
  VITRINE_DETAIL_ABI_PASTE(VITRINE_DETAIL_ABI_NAMESPACE, _without_cxx11_strings)
#else
#define VITRINE_DETAIL_CONTEXT_NAMESPACE VITRINE_DETAIL_ABI_NAMESPACE
#endif

#pragma push_macro("Status")  // of <X11/Xlib.h>
#undef Status

namespace vitrine::context {
inline namespace VITRINE_DETAIL_CONTEXT_NAMESPACE {

/// An attribute's value: text (UTF-8), a boolean, a 64-bit signed integer, a double, or an array of
/// one of these. Other types do not compile, including unsigned 64-bit integers: the format cannot
/// hold their upper half.
class Value {
  template <class Type>
  static constexpr bool is_integer =
      std::is_integral_v<Type> && !std::is_same_v<Type, bool> && !std::is_same_v<Type, char> &&
      !std::is_same_v<Type, wchar_t> && !std::is_same_v<Type, char16_t> &&
      !std::is_same_v<Type, char32_t> &&
      (std::is_signed_v<Type> || sizeof(Type) < sizeof(std::int64_t));

 public:
  using Variant = std::variant<std::string, bool, std::int64_t, double, std::vector<std::string>,
                               std::vector<bool>, std::vector<std::int64_t>, std::vector<double>>;

  Value(std::string text) : value_(std::move(text)) {}
  Value(std::string_view text) : value_(std::string(text)) {}
  /// Null, as std::getenv may return it, is the empty text.
  Value(const char* text) : value_(text != nullptr ? std::string(text) : std::string()) {}
  Value(std::nullptr_t) = delete;
  template <class Type, std::enable_if_t<std::is_same_v<Type, bool>, int> = 0>
  Value(Type flag) : value_(flag) {}
  template <class Type, std::enable_if_t<is_integer<Type>, int> = 0>
  Value(Type number) : value_(static_cast<std::int64_t>(number)) {}
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

/// What became of a call: invalid_attribute, too_large, unsupported, shared_memory or out_of_memory
/// on an error, and then the published context is unchanged.
using vitrine::Errc;
using vitrine::Status;

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

/// Publishes the context, replacing the previous one completely. It declares the thread records of this library,
/// with the names of their keys. The resource consists of the
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

}  // namespace VITRINE_DETAIL_CONTEXT_NAMESPACE
}  // namespace vitrine::context

#pragma pop_macro("Status")
