#include "observe/slot_reading.hpp"

#include <fmt/format.h>

#include "abi/custom_labels.hpp"

namespace vitrine::observe {
namespace {

using abi::custom_labels::SerialSet;

/// Most records, with what they point at, fit in as much; what does not comes with the next batch.
constexpr std::size_t speculative_bytes = 256;

/// Slots of one definition that lead to the same address share their content.
struct ContentKey {
  Address record;
  std::size_t definition;

  bool operator==(const ContentKey&) const = default;
};

struct HashContentKey {
  std::size_t operator()(const ContentKey& key) const {
    return std::hash<Address>()(key.record ^ (Address{key.definition} << 57));
  }
};

}  // namespace

SlotReader::SlotReader(Subject& subject) : subject_(subject), memory_(subject.process().memory()) {}

Readings SlotReader::read(std::span<const SeenThread> threads, std::size_t& bytes_left) {
  memory_.clear();
  Readings readings;
  std::vector<Address> addresses;
  locate(threads, readings, addresses);
  read_slots(readings, addresses);
  gather_contents(threads, readings);
  recall(readings);
  decode(readings, bytes_left);
  return readings;
}

/// Where the slots are. 0: not allocated in that thread, which then has no labels.
void SlotReader::locate(std::span<const SeenThread> threads, Readings& readings,
                        std::vector<Address>& addresses) {
  const auto definitions = subject_.definitions();
  readings.slots.resize(threads.size() * definitions.size());
  addresses.resize(readings.slots.size());
  const auto place = [&](std::size_t i, Memory& memory) {
    SlotReading& slot = readings.slots[i];
    slot.thread = i / definitions.size();
    slot.definition = i % definitions.size();
    const Address tp = threads[slot.thread].thread_pointer;
    if (tp == 0) {
      slot.error = Error{
          ErrorCode::unsupported,
          fmt::format("thread {}: its thread pointer is not known", threads[slot.thread].id.tid),
          "run vitrine with CAP_BPF and CAP_PERFMON, or in ptrace mode"};
      return;
    }
    const auto address = target::evaluate(definitions[slot.definition].location,
                                          subject_.process().machine(), tp, memory);
    slot.error.reset();
    if (address)
      addresses[i] = address->value_or(0);
    else
      slot.error = address.error();
  };
  for (const std::size_t i :
       memory_.run(readings.slots.size(), [&](std::size_t job) { place(job, memory_); }))
    place(i, subject_.process().memory());
}

void SlotReader::read_slots(Readings& readings, std::span<const Address> addresses) {
  std::vector<std::uint64_t> values(addresses.size());
  std::vector<ReadRequest> requests;
  std::vector<std::size_t> asked;
  const Address mask = subject_.process().memory().untag(~Address{0});
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    SlotReading& slot = readings.slots[i];
    if (addresses[i] == 0 || slot.error) continue;
    if (!format::slot_is_pointer(subject_.definitions()[slot.definition].format)) {
      slot.record = addresses[i] & mask;
      continue;
    }
    requests.push_back({addresses[i], std::as_writable_bytes(std::span(&values[i], 1)), 0});
    asked.push_back(i);
  }
  subject_.process().memory().read(requests);
  for (std::size_t n = 0; n < asked.size(); ++n) {
    const std::size_t i = asked[n];
    if (requests[n].complete())
      readings.slots[i].record = values[i] & mask;
    else
      readings.slots[i].error =
          Error{ErrorCode::malformed,
                fmt::format("its thread-local slot at {} is not readable", hex(addresses[i])),
                {}};
  }
}

void SlotReader::gather_contents(std::span<const SeenThread> threads, Readings& readings) {
  std::unordered_map<ContentKey, std::size_t, HashContentKey> known;
  known.reserve(readings.slots.size());
  for (SlotReading& slot : readings.slots) {
    if (slot.record == 0) continue;
    const auto [entry, added] =
        known.try_emplace({slot.record, slot.definition}, readings.contents.size());
    if (added) {
      Content& content = readings.contents.emplace_back();
      content.definition = slot.definition;
      content.record = slot.record;
      content.thread_pointer = threads[slot.thread].thread_pointer;
    }
    slot.content = entry->second;
  }
}

/// Takes what is remembered of sets that still are the same incarnation (labels.md 7.1 item 6).
void SlotReader::recall(Readings& readings) {
  if (remembered_.empty()) return;
  std::vector<SerialSet> heads(readings.contents.size());
  std::vector<ReadRequest> requests;
  std::vector<std::size_t> asked;
  for (std::size_t i = 0; i < readings.contents.size(); ++i) {
    const Content& content = readings.contents[i];
    if (remembered_.find(content.record) == remembered_.end()) continue;
    requests.push_back({content.record, std::as_writable_bytes(std::span(&heads[i], 1)), 0});
    asked.push_back(i);
  }
  subject_.process().memory().read(requests);
  for (std::size_t n = 0; n < asked.size(); ++n) {
    Content& content = readings.contents[asked[n]];
    const Remembered& before = remembered_.at(content.record);
    if (!requests[n].complete() || !format::still_stands(before.mark, heads[asked[n]])) continue;
    content.mark = before.mark;
    content.set = before.set;
    content.unchanged = true;
  }
}

void SlotReader::decode_one(Content& content, Memory& memory, std::size_t& bytes_left) {
  const Definition& definition = subject_.definitions()[content.definition];
  std::size_t left = bytes_left;
  const std::size_t wanted = memory_.wanted();
  auto decoded = format::decode_record(definition.format, memory, content.record,
                                       subject_.decode_context(definition, &left));
  if (memory_.wanted() != wanted) return;  // it will run again
  bytes_left = left;
  if (!decoded) {
    content.set = tl::unexpected<Error>(std::move(decoded.error()));
    return;
  }
  content.set = std::move(decoded->set);
  content.needs_keys = decoded->needs_key_map_refresh;
  if (definition.format == format::Format::custom_labels_v1)
    content.mark = format::read_serial(memory_, content.record);
}

void SlotReader::decode(Readings& readings, std::size_t& bytes_left) {
  std::vector<Content*> open;
  for (Content& content : readings.contents) {
    if (content.unchanged) continue;
    memory_.want(content.record, speculative_bytes);
    open.push_back(&content);
  }
  memory_.fetch();
  const auto with = [&](Memory& memory) {
    return [&](std::size_t i) { decode_one(*open[i], memory, bytes_left); };
  };
  for (const std::size_t i : memory_.run(open.size(), with(memory_)))
    decode_one(*open[i], subject_.process().memory(), bytes_left);

  // A key map grows. Read it once more, and decode those that need it from the same bytes.
  std::vector<bool> refreshed(subject_.definitions().size());
  for (Content* content : open) {
    if (!content->needs_keys) continue;
    if (!refreshed[content->definition]) {
      subject_.refresh_keys(subject_.definitions()[content->definition], content->thread_pointer);
      refreshed[content->definition] = true;
    }
    decode_one(*content, memory_, bytes_left);
  }
}

void SlotReader::remember(const Readings& readings, const std::vector<bool>& trusted) {
  std::unordered_map<Address, Remembered> now;
  for (std::size_t i = 0; i < readings.contents.size(); ++i) {
    const Content& content = readings.contents[i];
    if (!content.mark || !content.set || !content.set->truncated.empty()) continue;
    if (trusted[i] || content.unchanged)
      now.emplace(content.record, Remembered{*content.mark, *content.set});
  }
  remembered_ = std::move(now);
}

}  // namespace vitrine::observe
