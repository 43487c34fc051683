#include "format/redact.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace vitrine::format {
namespace {

void add(LabelSet& set, std::string key, std::string value) {
  const bool there =
      std::ranges::any_of(set.labels, [&](const Label& label) { return label.key == key; });
  if (!there) set.labels.push_back({std::move(key), std::move(value)});
}

/// The ids of `set` as labels, those that are covered replaced.
void ids_as_labels(LabelSet& set, const Redaction& redaction) {
  const bool traces = redaction.covers_label("trace_id");
  const bool spans = redaction.covers_label("span_id");
  const bool roots = spans || redaction.covers_label("root_span_id");
  if (!set.trace || !(traces || roots)) return;
  const auto id = [&](const char* key, std::span<const std::uint8_t> bytes, bool covered) {
    const std::string hex = hex_text(bytes);
    add(set, key, covered ? redaction.replacement(hex) : hex);
  };
  id("trace_id", set.trace->trace_id, traces);
  id("span_id", set.trace->span_id, spans);
  if (set.trace->root_span_id) id("root_span_id", *set.trace->root_span_id, roots);
  set.trace.reset();
}

/// Text that two values share only when they are the same; of a single value, as people write it.
struct Spelled {
  std::string operator()(std::monostate) const { return {}; }
  std::string operator()(const std::string& text) const { return text; }
  std::string operator()(bool truth) const { return truth ? "true" : "false"; }
  std::string operator()(std::int64_t number) const { return std::to_string(number); }
  std::string operator()(double number) const { return fmt::format("{}", number); }
  std::string operator()(const Blob& blob) const { return blob.bytes; }
  std::string operator()(const ValueArray& array) const {
    std::string out = "[";
    for (const AnyValue& value : array) out += part(std::visit(*this, value.data));
    return out;
  }
  std::string operator()(const KeyValueList& list) const {
    std::string out = "{";
    for (const KeyValue& one : list) out += part(one.key) + part(std::visit(*this, one.value.data));
    return out;
  }

 private:
  static std::string part(const std::string& text) {
    return fmt::format("{}:{}", text.size(), text);
  }
};

void redact(KeyValueList& list, const Redaction& redaction);

/// What is covered within a value that is not.
void redact_within(AnyValue& value, const Redaction& redaction) {
  if (auto* list = std::get_if<KeyValueList>(&value.data)) redact(*list, redaction);
  if (auto* array = std::get_if<ValueArray>(&value.data))
    for (AnyValue& one : *array) redact_within(one, redaction);
}

void redact(KeyValueList& list, const Redaction& redaction) {
  for (KeyValue& one : list) {
    if (!redaction.covers_attribute(one.key))
      redact_within(one.value, redaction);
    else if (!std::holds_alternative<std::monostate>(one.value.data))
      one.value.data = redaction.replacement(std::visit(Spelled{}, one.value.data));
  }
}

}  // namespace

LabelSet redacted(LabelSet set, const Redaction& redaction) {
  if (!redaction.any()) return set;
  for (Label& label : set.labels)
    if (redaction.covers_label(label.key)) label.value = redaction.replacement(label.value);
  ids_as_labels(set, redaction);
  return set;
}

ProcessContext redacted(ProcessContext context, const Redaction& redaction) {
  if (!redaction.any()) return context;
  redact(context.resource, redaction);
  redact(context.attributes, redaction);
  return context;
}

}  // namespace vitrine::format
