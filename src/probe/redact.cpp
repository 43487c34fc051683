#include "probe/redact.hpp"

#include <fmt/format.h>

namespace vitrine::probe {
namespace {

struct Hidden {
  const Redaction& redaction;

  Value operator()(std::int64_t number) const { return text(std::to_string(number)); }
  Value operator()(std::uint64_t number) const { return text(std::to_string(number)); }
  Value operator()(double number) const { return text(fmt::format("{}", number)); }
  Value operator()(bool truth) const { return text(truth ? "true" : "false"); }
  Value operator()(const PointerValue& pointer) const { return text(hex(pointer.address)); }
  Value operator()(const EnumeratorValue& value) const {
    return text(value.name.empty() ? std::to_string(value.value) : value.name);
  }
  Value operator()(const StringValue& string) const { return text(string.text, string.truncated); }
  Value operator()(const BytesValue& bytes) const {
    const auto* first = reinterpret_cast<const char*>(bytes.bytes.data());
    return text({first, bytes.bytes.size()}, bytes.truncated);
  }
  Value operator()(const ValueError& error) const { return error; }

 private:
  Value text(std::string_view bytes, bool truncated = false) const {
    return StringValue{redaction.replacement(bytes), truncated};
  }
};

}  // namespace

Value redacted(const Value& value, const Redaction& redaction) {
  return std::visit(Hidden{redaction}, value);
}

}  // namespace vitrine::probe
