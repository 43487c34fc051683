// What a process context must declare of the thread contexts of its process.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "abi/thread_context.hpp"
#include "base/limits.hpp"
#include "base/text.hpp"
#include "check/context.hpp"
#include "check/rule.hpp"

namespace vitrine::check {
namespace {

namespace record_names = abi::thread_context;

Outcome no_schema() {
  return does_not_apply("the process context has no attributes of thread contexts");
}

Outcome announced(const ContextSubject& subject) {
  if (!subject.needs_schema) return does_not_apply("the process has no slots of thread contexts");
  if (!subject.schema) {
    const std::string found = subject.state ? fmt::format("the process context has no {}",
                                                          record_names::schema_version_key)
                                            : "the process has no readable context";
    // A publisher may announce its records with the first of them.
    if (subject.has_records) return fails(found);
    return undecided(found + ", and no thread had a record in force",
                     "check while the program works, or with a longer --duration");
  }
  const std::string& version = subject.schema->version;
  const std::string shown = subject.shown(record_names::schema_version_key, version);
  if (version == record_names::schema_version_final ||
      version == record_names::schema_version_released)
    return holds(shown);
  return fails(fmt::format("{} is '{}'", record_names::schema_version_key, shown));
}

Outcome accepted_version(const ContextSubject& subject) {
  if (!subject.needs_schema || !subject.schema) return no_schema();
  const std::string& version = subject.schema->version;
  const std::string shown = subject.shown(record_names::schema_version_key, version);
  if (version == record_names::schema_version_released) return holds(shown);
  if (version == record_names::schema_version_final) return fails(shown);
  return does_not_apply("no reader supports it");
}

Outcome in_attributes(const ContextSubject& subject) {
  if (!subject.needs_schema || !subject.schema) return no_schema();
  return subject.schema_in_resource ? fails("they are in the resource")
                                    : holds("they are in the attributes");
}

Outcome key_map(const ContextSubject& subject) {
  if (!subject.needs_schema || !subject.schema || !subject.state) return no_schema();
  const auto& context = subject.state->context;
  const format::AnyValue* value = format::find(context.attributes, record_names::key_map_key);
  if (value == nullptr) value = format::find(context.resource, record_names::key_map_key);
  if (value == nullptr)
    return fails(fmt::format("the context has no {}", record_names::key_map_key));
  const auto* array = std::get_if<format::ValueArray>(&value->data);
  if (array == nullptr) return fails("it is not an array");
  if (array->size() > limits::key_map_entries)
    return fails(fmt::format("it has {} entries, and an index has one byte", array->size()));
  Counted entries("entries");
  std::set<std::string_view> seen;
  for (const format::AnyValue& one : *array) {
    const auto* text = std::get_if<std::string>(&one.data);
    if (text == nullptr)
      entries.bad("it is not text");
    else if (text->empty() || !is_utf8(*text) || !seen.insert(*text).second)
      entries.bad(text->empty() ? "it is empty" : *text + ": repeated, or not UTF-8");
    else
      entries.good();
  }
  return array->empty() ? holds("it is empty") : entries.outcome();
}

Outcome only_grows(const ContextSubject& subject) {
  if (!subject.needs_schema || !subject.schema) return no_schema();
  if (!subject.key_map_change.empty()) return fails(subject.key_map_change);
  if (subject.updates == 0)
    return does_not_apply(fmt::format("no update was seen in {} readings", subject.looks));
  return holds(fmt::format("{} updates", subject.updates));
}

constexpr std::string_view source = "OTEP-4947: Process context attributes";

constexpr Rule<ContextSubject> thread_schema_table[] = {
    {{"otep-4947.schema-version", otep_4947, required,
      "The process context has threadlocal.schema_version, with a known version", source,
      "publish threadlocal.schema_version = tlsdesc_v1_dev in the process context", "all"},
     announced},
    {{"otep-4947.schema-readers", otep_4947, advised,
      "Released readers accept the version: tlsdesc_v1_dev",
      "no specification: readers look for nothing else",
      "publish tlsdesc_v1_dev until your readers accept tls_v1 (vitrine: Options::thread_schema)",
      "with tls_v1: context-reader, libdatadog, ddtrace, dd-java-agent"},
     accepted_version},
    {{"otep-4947.schema-place", otep_4947, required,
      "The threadlocal.* keys are in the context's attributes, not in its resource", source,
      "publish them in field 2 of ProcessContext", "OpenTelemetry eBPF profiler"},
     in_attributes},
    {{"otep-4947.key-map", otep_4947, required,
      "threadlocal.attribute_key_map is an array of at most 256 different names", source,
      "publish an array of text, each name once",
      "all readers; context-reader shifts all entries after one that is not text"},
     key_map},
    {{"otep-4947.key-map-grows", otep_4947, required, "Names in the key map stay: it only grows",
      source, "append new names", "all readers: they keep the first names they read"},
     only_grows},
};

}  // namespace

std::span<const Rule<ContextSubject>> thread_schema_rules() {
  return thread_schema_table;
}

}  // namespace vitrine::check
