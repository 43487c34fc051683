// Labels of custom-labels, as threads of a live process have them in force.
#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.hpp"
#include "check/reading_questions.hpp"

namespace vitrine::check {
namespace {

using format::SetRule;
using observe::ThreadLabels;
using Broken = std::optional<Breach>;

// What Parca's profiler has room for (its native_custom_labels.h).
constexpr std::size_t parca_labels = 10, parca_key = 25, parca_value = 53;

Broken value_present(const ThreadLabels& reading) {
  return first_defect(reading, SetRule::value_present);
}

Broken key_readable(const ThreadLabels& reading) {
  return first_defect(reading, SetRule::key_readable);
}

Broken repeated(const ThreadLabels& reading) {
  if (!reading.set || reading.set->repeated == 0) return std::nullopt;
  return fmt::format("{} entries have the key of an earlier one", reading.set->repeated);
}

Broken within_parca(const ThreadLabels& reading) {
  if (!reading.set) return std::nullopt;
  const auto& labels = reading.set->labels;
  if (labels.size() > parca_labels) return fmt::format("{} labels", labels.size());
  const auto found = std::ranges::find_if(labels, [](const format::Label& one) {
    return one.key.size() > parca_key || one.value.size() > parca_value;
  });
  if (found == labels.end()) return std::nullopt;
  return fmt::format("{}: a key of {} bytes, a value of {}", found->key, found->key.size(),
                     found->value.size());
}

Broken text(const ThreadLabels& reading) {
  if (!reading.set) return std::nullopt;
  const auto is_text = [](const std::string& bytes) {
    return is_utf8(bytes) && bytes.find('\0') == bytes.npos;
  };
  const auto& labels = reading.set->labels;
  const auto found = std::ranges::find_if(
      labels, [&](const format::Label& one) { return !is_text(one.key) || !is_text(one.value); });
  if (found == labels.end()) return std::nullopt;
  return &*found;
}

constexpr std::string_view exposed_symbols =
    "custom-labels-v0.md, custom-labels-v1.md: Interpretation of data";

constexpr ReadingRule live_label_table[] = {
    {{"labels.readable", labels_profiles, required,
      "The slot, the set and its array of labels are readable in every thread", exposed_symbols,
      "put a set in force after it is complete; remove it before it is freed", "all"},
     unreadable},
    {{"labels.value-present", labels_profiles, required, "No label's value is a null pointer",
      exposed_symbols, "point an empty value to any byte, with length 0", "all"},
     value_present},
    {{"labels.key-readable", labels_profiles, required, "Every key points to readable bytes",
      exposed_symbols, "free a key after its label is no longer in force", "all"},
     key_readable},
    {{"labels.whole", labels_profiles, advised,
      "Every set fits the limits of readers: 256 labels, keys of 1 KiB, values of 16 KiB",
      "vitrine, limits", "publish fewer and shorter labels", "vitrine, context-reader"},
     cut},
    {{"labels.parca-limits", labels_profiles, advised,
      "Every set has at most 10 labels, keys of 25 bytes, values of 53",
      "no specification: a limit of a reader",
      "publish shorter labels, the most important ones first",
      "Parca's eBPF profiler: truncates silently"},
     within_parca},
    {{"labels.no-repeats", labels_profiles, advised, "No key occurs twice in a set",
      exposed_symbols, "replace a label instead of adding one: only the first one counts", ""},
     repeated},
    {{"labels.text", labels_profiles, advised, "Keys and values are UTF-8 without NULs",
      "OTLP and pprof: string", "publish text; ids as hexadecimal digits",
      "Parca's eBPF profiler, exporters to OTLP and pprof"},
     text},
};

}  // namespace

std::span<const ReadingRule> live_label_rules() {
  return live_label_table;
}

}  // namespace vitrine::check
