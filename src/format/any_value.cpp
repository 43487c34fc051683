#include "format/any_value.hpp"

#include <algorithm>

namespace vitrine::format {

bool operator==(const AnyValue& left, const AnyValue& right) {
  return left.data == right.data;
}

bool operator==(const KeyValue& left, const KeyValue& right) {
  return left.key == right.key && left.value == right.value;
}

const AnyValue* find(const KeyValueList& list, std::string_view key) {
  const auto found = std::find_if(list.rbegin(), list.rend(),
                                  [&](const KeyValue& entry) { return entry.key == key; });
  return found == list.rend() ? nullptr : &found->value;
}

const std::string* find_text(const KeyValueList& list, std::string_view key) {
  const AnyValue* value = find(list, key);
  return value ? std::get_if<std::string>(&value->data) : nullptr;
}

}  // namespace vitrine::format
