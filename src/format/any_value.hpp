// AnyValue: a value of an OpenTelemetry attribute.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace vitrine::format {

struct AnyValue;
struct KeyValue;

using ValueArray = std::vector<AnyValue>;
using KeyValueList = std::vector<KeyValue>;

/// An opaque byte string, as against text.
struct Blob {
  std::string bytes;

  bool operator==(const Blob&) const = default;
};

struct AnyValue {
  /// monostate: no value was set. Text may hold any bytes, too, when its publisher broke the rules.
  std::variant<std::monostate, std::string, bool, std::int64_t, double, ValueArray, KeyValueList,
               Blob>
      data;
};

struct KeyValue {
  std::string key;
  AnyValue value;
};

bool operator==(const AnyValue& left, const AnyValue& right);
bool operator==(const KeyValue& left, const KeyValue& right);

/// The value of `key`; of several the last, as protobuf readers do. Null: there is none.
const AnyValue* find(const KeyValueList& list, std::string_view key);

/// The same when it is text; null otherwise.
const std::string* find_text(const KeyValueList& list, std::string_view key);

}  // namespace vitrine::format
