#include "cli/value_json.hpp"

#include <fmt/format.h>

#include <cmath>

namespace vitrine::cli {
namespace {

struct NumberToJson {
  Json operator()(std::int64_t number) const { return json_integer(number); }
  Json operator()(std::uint64_t number) const { return json_integer(number); }
  Json operator()(double number) const {
    if (!std::isfinite(number)) return fmt::format("{}", number);
    return number;
  }
};

struct ValueToJson {
  Json operator()(std::int64_t number) const { return NumberToJson{}(number); }
  Json operator()(std::uint64_t number) const { return NumberToJson{}(number); }
  Json operator()(double number) const { return NumberToJson{}(number); }
  Json operator()(bool truth) const { return truth; }
  Json operator()(const probe::PointerValue& pointer) const { return hex(pointer.address); }
  Json operator()(const probe::EnumeratorValue& enumerator) const {
    return enumerator.name.empty() ? NumberToJson{}(enumerator.value) : json_bytes(enumerator.name);
  }
  Json operator()(const probe::StringValue& string) const { return json_bytes(string.text); }
  Json operator()(const probe::BytesValue& bytes) const {
    const auto* first = reinterpret_cast<const char*>(bytes.bytes.data());
    return json_base64({first, bytes.bytes.size()});
  }
  Json operator()(const probe::ValueError& error) const {
    return {{"error", json_bytes(error.message)}};
  }
};

}  // namespace

Json json_number(const query::Number& number) {
  return std::visit(NumberToJson{}, number);
}

Json json_value(const probe::Value& value) {
  return std::visit(ValueToJson{}, value);
}

}  // namespace vitrine::cli
