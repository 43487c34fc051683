// Thread contexts, as threads of a live process have them in force.
#include <fmt/format.h>

#include <algorithm>

#include "abi/thread_context.hpp"
#include "base/utf8.hpp"
#include "check/reading_questions.hpp"

namespace vitrine::check {
namespace {

using format::SetRule;
using observe::ThreadLabels;
using Broken = std::optional<Breach>;

Broken valid_flag(const ThreadLabels& reading) {
  return first_defect(reading, SetRule::valid_is_boolean);
}

Broken aligned(const ThreadLabels& reading) {
  return first_defect(reading, SetRule::record_aligned);
}

Broken attributes_fit(const ThreadLabels& reading) {
  return first_defect(reading, SetRule::attributes_fit);
}

Broken key_in_map(const ThreadLabels& reading) {
  return first_defect(reading, SetRule::key_in_map);
}

Broken keys_unique(const ThreadLabels& reading) {
  return first_defect(reading, SetRule::keys_unique);
}

Broken record_size(const ThreadLabels& reading) {
  if (!reading.set || reading.set->record_bytes <= abi::thread_context::recommended_record_max)
    return std::nullopt;
  return fmt::format("{} bytes", reading.set->record_bytes);
}

Broken both_ids(const ThreadLabels& reading) {
  if (!reading.set || !reading.set->trace) return std::nullopt;
  const auto zero = [](const auto& id) {
    return std::ranges::all_of(id, [](std::uint8_t byte) { return byte == 0; });
  };
  const bool no_trace = zero(reading.set->trace->trace_id);
  if (no_trace == zero(reading.set->trace->span_id)) return std::nullopt;
  return no_trace ? "a span id, and a trace id of zeros" : "a trace id, and a span id of zeros";
}

Broken utf8(const ThreadLabels& reading) {
  if (!reading.set) return std::nullopt;
  const auto& labels = reading.set->labels;
  const auto found =
      std::ranges::find_if(labels, [](const format::Label& one) { return !is_utf8(one.value); });
  return found == labels.end() ? std::nullopt : Broken(&*found);
}

constexpr std::string_view record = "OTEP-4947: Thread record";

constexpr ReadingRule live_record_table[] = {
    {{"otep-4947.readable", otep_4947, required,
      "The slot and the record are readable in every thread", record,
      "put a record in force after it is complete; remove it before it is freed", "all"},
     unreadable},
    {{"otep-4947.valid-flag", otep_4947, required, "valid is 0 or 1", record,
      "write 1 when the record is complete, 0 before it is changed", "all"},
     valid_flag},
    {{"otep-4947.record-aligned", otep_4947, required, "Every record is aligned to 2", record,
      "align records to 8 bytes", ""},
     aligned},
    {{"otep-4947.attributes-fit", otep_4947, required,
      "The last attribute ends at attrs_size, or before", record,
      "raise attrs_size after the bytes are written, by the number of bytes written",
      "all readers: they drop the attribute"},
     attributes_fit},
    {{"otep-4947.key-in-map", otep_4947, required, "Every key index has a name in the key map",
      record, "publish the process context with a new key before the first record that uses it",
      "all readers: they drop the attribute"},
     key_in_map},
    {{"otep-4947.keys-differ", otep_4947, required,
      "No two attributes of a record have the same name", record, "assign one index to each name",
      "all readers: the chosen value is unspecified"},
     keys_unique},
    {{"otep-4947.utf8", otep_4947, required, "Every value is UTF-8", record,
      "truncate values of 255 bytes between characters",
      "all readers: they drop or change the value"},
     utf8},
    {{"otep-4947.both-ids", otep_4947, required,
      "A record has both a trace id and a span id, or neither", "W3C Trace Context",
      "write zeros for both when there is no span", ""},
     both_ids},
    {{"otep-4947.record-size", otep_4947, Weight::advised, "A record has at most 640 bytes",
      "OTEP-4947: recommended size", "publish fewer or shorter attributes",
      "context-reader, OpenTelemetry eBPF profiler"},
     record_size},
};

}  // namespace

std::span<const ReadingRule> live_record_rules() {
  return live_record_table;
}

}  // namespace vitrine::check
