// vitrine/observe/context.hpp: the process context of a live process (OTEP-4719).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>
#include <vitrine/observe/result.hpp>

namespace vitrine::observer {
inline namespace v1 {

struct Attribute;

/// Bytes that are not text.
struct Bytes {
  std::string data;
};

/// A value of an OpenTelemetry attribute. monostate: none was set. Text is UTF-8 unless its publisher
/// broke the rules.
struct AttributeValue {
  std::variant<std::monostate, std::string, bool, std::int64_t, double, std::vector<AttributeValue>,
               std::vector<Attribute>, Bytes>
      data;
};

struct Attribute {
  std::string key;
  AttributeValue value;
};

struct ProcessContext {
  std::uint32_t version = 0;          ///< of the format: 1 or 2
  std::uint64_t published_at_ns = 0;  ///< changes with every update; opaque
  std::vector<Attribute> resource;    ///< as published: keys may repeat, and then the last counts
  std::vector<Attribute> attributes;  ///< of the context itself
  std::vector<std::string> truncated;
  std::vector<std::string> defects;  ///< rules of the format that the publisher broke
  std::string stale;  ///< not empty: the last good reading, and why there is no newer one
  std::vector<std::string> notes;

  /// The text of a resource attribute, or null.
  [[nodiscard]] const std::string* find(std::string_view key) const noexcept {
    const std::string* found = nullptr;
    for (const Attribute& attribute : resource)
      if (attribute.key == key) found = std::get_if<std::string>(&attribute.value.data);
    return found;
  }
};

/// Reads one process's context again and again: an unchanged one costs a read of 32 bytes and a copy.
/// One thread at a time uses a reader.
class ContextReader {
 public:
  /// Errors: not_found, not_permitted, unsupported.
  static Result<ContextReader> open(int pid);

  ContextReader(ContextReader&&) noexcept;
  ContextReader& operator=(ContextReader&&) noexcept;
  ~ContextReader();

  /// The context now; nothing: the process publishes none. Errors: not_permitted; not_found, the
  /// process is gone; another_program, it executed one (open it again); changing, it is just updating
  /// its first context; malformed, unsupported or limit, by its publisher's fault.
  Result<std::optional<ProcessContext>> read();

 private:
  struct State;
  explicit ContextReader(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

/// One reading.
Result<std::optional<ProcessContext>> read_context(int pid);

}  // namespace v1
}  // namespace vitrine::observer
