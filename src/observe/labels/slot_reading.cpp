#include "observe/labels/slot_reading.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "abi/custom_labels.hpp"

namespace vitrine::observe {
namespace {

/// Most records, with what they point at, fit in as much: allocators place next to each other what is
/// allocated together. What does not fit comes with the next batch, which costs more than reading
/// some hundred bytes in vain.
std::size_t speculative_bytes(format::Format format) {
  return format == format::Format::custom_labels_v0 || format == format::Format::custom_labels_v1
             ? 768
             : 128;
}

/// Of a label array, and of each of its strings. Few have more, and those come in further batches.
constexpr std::size_t prefetched_labels = 16;
constexpr std::size_t prefetched_bytes = 256;

/// Slots of one thread that lie as close as this come in one request.
constexpr std::size_t slot_window = 64;

constexpr std::size_t slot_bytes = sizeof(Address);

/// Contents are fetched and decoded so many at a time: their bytes are still in the CPU's cache
/// when they are decoded.
constexpr std::size_t contents_at_once = 512;

/// Bytes of labels that are remembered from one reading to the next; others are read each time.
constexpr std::size_t max_remembered = 16U << 20;

/// Slots of one definition that lead to the same address share their content. Addresses have at
/// most 57 bits.
std::uint64_t content_key(Address record, std::size_t definition) {
  return record ^ (std::uint64_t{definition} << 57);
}

format::LabelSet out_of_bytes() {
  format::LabelSet set;
  set.truncated.push_back({"bytes", "kept 0 labels: the snapshot's limit is reached"});
  return set;
}

}  // namespace

std::size_t bytes_of(const format::LabelSet& set) {
  std::size_t bytes = 0;
  for (const format::Label& label : set.labels)
    bytes += sizeof(abi::custom_labels::Label) + label.key.size() + label.value.size();
  return bytes;
}

SlotReader::SlotReader(Subject& subject) : subject_(subject), memory_(subject.process().memory()) {}

Readings SlotReader::read(std::span<const SeenThread> threads, std::size_t& bytes_left) {
  memory_.clear();
  room_ = max_remembered;
  Readings readings;
  std::vector<Address> addresses;
  take_unchanged(threads, readings);
  locate(threads, readings, addresses);
  read_slots(readings, addresses);
  gather_contents(threads, readings);
  refreshed_.clear();
  for (std::span<Content> left(readings.contents); !left.empty();) {
    const auto some = left.first(std::min(left.size(), contents_at_once));
    memory_.clear();
    decode(some, bytes_left);
    left = left.subspan(some.size());
  }
  return readings;
}

/// Whether the process has the threads of the last reading, and none has run anything since. Then
/// nothing in its memory has changed, whichever process may write to it.
bool SlotReader::nothing_ran(std::span<const SeenThread> threads) const {
  const auto as_before = [](const SeenThread& seen, const Last& last) {
    return seen.id == last.id && seen.at_rest && seen.runs == last.runs;
  };
  return threads.size() == last_.size() &&
         std::equal(threads.begin(), threads.end(), last_.begin(), as_before);
}

/// Lays out the slots, and takes over what threads that have run nothing since the last reading
/// had in theirs.
void SlotReader::take_unchanged(std::span<const SeenThread> threads, Readings& readings) const {
  const std::size_t width = subject_.definitions().size();
  readings.slots.resize(threads.size() * width);
  const bool is_all_unchanged = all_remembered_ && nothing_ran(threads);
  auto last = last_.begin();
  for (std::size_t thread = 0; thread < threads.size(); ++thread) {
    const SeenThread& seen = threads[thread];
    while (last != last_.end() && last->id < seen.id) ++last;
    const bool still =
        last != last_.end() && last->id == seen.id && seen.at_rest && last->runs == seen.runs;
    const LastSlot* before =
        still ? &last_slots_[static_cast<std::size_t>(last - last_.begin()) * width] : nullptr;
    for (std::size_t definition = 0; definition < width; ++definition) {
      SlotReading& slot = readings.slots[thread * width + definition];
      slot.thread = thread;
      slot.definition = definition;
      if (!still || !before[definition].proven) continue;
      slot.known = true;
      slot.steady = is_all_unchanged || before[definition].constant;
      slot.record = before[definition].record;
    }
  }
}

/// Where the slots are. 0: not allocated in that thread, which then has no labels.
void SlotReader::locate(std::span<const SeenThread> threads, Readings& readings,
                        std::vector<Address>& addresses) {
  const auto definitions = subject_.definitions();
  addresses.resize(readings.slots.size());
  const auto place = [&](std::size_t i, Memory& memory) {
    SlotReading& slot = readings.slots[i];
    if (slot.known) return;
    const Address tp = threads[slot.thread].thread_pointer;
    if (tp == 0) {
      slot.error = std::make_unique<Error>(
          Error{ErrorCode::unsupported, "its thread pointer is unknown",
                "run vitrine with CAP_BPF and CAP_PERFMON, or in ptrace mode"});
      return;
    }
    const auto address = target::evaluate(definitions[slot.definition].location,
                                          subject_.process().machine(), tp, memory);
    slot.error.reset();
    if (address)
      addresses[i] = address->value_or(0);
    else
      slot.error = std::make_unique<Error>(address.error());
  };
  for (const std::size_t i :
       memory_.run(readings.slots.size(), [&](std::size_t job) { place(job, memory_); }))
    place(i, subject_.process().memory());
}

void SlotReader::read_slots(Readings& readings, std::span<const Address> addresses) {
  struct Run {
    std::size_t first, last;  ///< of the slots
    std::size_t length;
  };
  std::vector<Run> runs;
  std::vector<std::size_t> open;
  const Address mask = subject_.process().memory().untag(~Address{0});
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    SlotReading& slot = readings.slots[i];
    if (addresses[i] == 0 || slot.error) continue;
    if (!format::slot_is_pointer(subject_.definitions()[slot.definition].format))
      slot.record = addresses[i] & mask;
    else
      open.push_back(i);
  }

  // Sorted by address within their thread, neighbours make a run.
  std::sort(open.begin(), open.end(), [&](std::size_t left, std::size_t right) {
    return std::pair(readings.slots[left].thread, addresses[left]) <
           std::pair(readings.slots[right].thread, addresses[right]);
  });
  for (std::size_t n = 0; n < open.size(); ++n) {
    const bool joins =
        !runs.empty() &&
        readings.slots[open[runs.back().first]].thread == readings.slots[open[n]].thread &&
        addresses[open[n]] - addresses[open[runs.back().first]] <= slot_window - slot_bytes;
    if (joins) {
      runs.back().last = n;
      runs.back().length =
          static_cast<std::size_t>(addresses[open[n]] - addresses[open[runs.back().first]]) +
          slot_bytes;
    } else {
      runs.push_back({n, n, slot_bytes});
    }
  }

  std::vector<std::array<std::byte, slot_window>> bytes(runs.size());
  std::vector<ReadRequest> requests;
  requests.reserve(runs.size());
  for (std::size_t n = 0; n < runs.size(); ++n)
    requests.push_back(
        {addresses[open[runs[n].first]], std::span(bytes[n]).first(runs[n].length), 0});
  subject_.process().memory().read(requests);

  for (std::size_t n = 0; n < runs.size(); ++n)
    for (std::size_t at = runs[n].first; at <= runs[n].last; ++at) {
      const Address address = addresses[open[at]];
      const auto skip = static_cast<std::size_t>(address - requests[n].address);
      SlotReading& slot = readings.slots[open[at]];
      Address value = 0;
      if (requests[n].got >= skip + slot_bytes) {
        std::memcpy(&value, bytes[n].data() + skip, slot_bytes);
        slot.record = value & mask;
      } else {
        slot.error = std::make_unique<Error>(
            Error{ErrorCode::malformed,
                  fmt::format("its thread-local slot at {} is not readable", hex(address)),
                  {}});
      }
    }
}

void SlotReader::gather_contents(std::span<const SeenThread> threads, Readings& readings) {
  known_.clear();
  readings.contents.reserve(readings.slots.size());
  const auto definitions = subject_.definitions();
  const auto block_of = [&](const SlotReading& slot) -> Address {
    const std::size_t first = slot.thread * definitions.size();
    for (std::size_t i = 0; i < definitions.size(); ++i) {
      const Address set = readings.slots[first + i].record;
      if (definitions[i].format == format::Format::custom_labels_v1 && set != 0 &&
          slot.record - set < limits::hard_label_limits.bytes_per_thread)
        return set;
    }
    return 0;
  };
  for (SlotReading& slot : readings.slots) {
    if (slot.record == 0) continue;
    const auto next = static_cast<std::uint32_t>(readings.contents.size());
    slot.content = known_.insert(content_key(slot.record, slot.definition), next);
    if (slot.content == next) readings.contents.emplace_back();
    Content& content = readings.contents[slot.content];
    content.steady = content.steady || slot.steady;
    if (content.slots++ > 0) continue;
    content.definition = slot.definition;
    content.record = slot.record;
    content.thread_pointer = threads[slot.thread].thread_pointer;
    content.block = block_of(slot);
  }
}

/// The serial of the block of vitrine's writer that holds the content; nullopt: a foreign one's.
std::optional<format::SerialMark> SlotReader::mark_of(const Content& content) {
  if (content.block == 0) return std::nullopt;
  auto mark = format::read_serial(memory_, content.block);
  if (mark && content.record - content.block >= mark->total_bytes) mark.reset();
  return mark;
}

/// Takes what is remembered of a set that still is the same incarnation
/// (docs/formats/custom-labels.md, "Reading protocol"): by its serial, or because a slot that holds
/// it is unchanged.
bool SlotReader::recall(Content& content) {
  if (content.unchanged()) return true;
  const std::uint32_t position =
      remembered_index_.find(content_key(content.record, content.definition));
  if (position == FlatIndex::none) return false;
  const std::optional<format::SerialMark>& before = remembered_[position].mark;
  if (!content.steady && (!before || mark_of(content) != before)) return false;
  content.mark = before;
  content.remembered = position;
  return true;
}

void SlotReader::decode_one(Content& content, Memory& memory, std::size_t& bytes_left) {
  const Definition& definition = subject_.definitions()[content.definition];
  std::size_t left = bytes_left;
  const std::size_t misses = memory_.misses();
  auto decoded = subject_.decode(definition, memory, content.record, content.thread_pointer, &left,
                                 &refreshed_);
  const auto mark = mark_of(content);
  // What is charged is charged once: by the run that lacks nothing.
  if (&memory == &memory_ && memory_.misses() != misses) return;
  bytes_left = left;
  content.set = std::move(decoded);
  if (content.set) content.mark = mark;
}

/// Fetches what label arrays point at, so that their decoders need not try in vain to learn it.
void SlotReader::prefetch(std::span<Content* const> contents) {
  namespace layout = abi::custom_labels;
  struct Array {
    Address address;
    std::size_t count;
  };
  std::vector<Array> arrays;
  for (const Content* content : contents) {
    const format::Format format = subject_.definitions()[content->definition].format;
    if (format != format::Format::custom_labels_v0 && format != format::Format::custom_labels_v1)
      continue;
    const auto head = memory_.read_value<layout::SetV0>(content->record, "label set");
    if (!head) continue;
    arrays.push_back({head->storage, std::min<std::uint64_t>(head->count, prefetched_labels)});
    memory_.want(head->storage, arrays.back().count * sizeof(layout::Label));
  }
  memory_.fetch();
  std::array<layout::Label, prefetched_labels> labels{};
  for (const Array& array : arrays) {
    const auto into = std::as_writable_bytes(std::span(labels).first(array.count));
    const std::size_t got = memory_.read_some(array.address, into) / sizeof(layout::Label);
    for (const layout::Label& label : std::span(labels).first(got)) {
      if (label.key.buf == 0) continue;
      memory_.want(label.key.buf, std::min<std::uint64_t>(label.key.len, prefetched_bytes));
      memory_.want(label.value.buf, std::min<std::uint64_t>(label.value.len, prefetched_bytes));
    }
  }
  memory_.fetch();
}

void SlotReader::decode(std::span<Content> contents, std::size_t& bytes_left) {
  std::vector<Content*> open;
  for (Content& content : contents)
    if (!content.steady || !recall(content))
      memory_.want(content.record,
                   speculative_bytes(subject_.definitions()[content.definition].format));
  memory_.fetch();
  for (Content& content : contents)
    if (!recall(content)) open.push_back(&content);
  prefetch(open);
  const auto with = [&](Memory& memory) {
    return [&](std::size_t i) { decode_one(*open[i], memory, bytes_left); };
  };
  for (const std::size_t i : memory_.run(open.size(), with(memory_)))
    decode_one(*open[i], subject_.process().memory(), bytes_left);
}

std::size_t SlotReader::bytes_of_labels(const Content& content) const {
  if (content.unchanged()) return bytes_of(remembered_[content.remembered].set);
  return content.set ? bytes_of(*content.set) : 0;
}

Result<format::LabelSet> SlotReader::take_labels(Content& content, bool all_rested,
                                                 std::size_t& bytes_left) {
  const bool decoded_for_this = content.copies++ == 0 && !content.unchanged();
  if (!decoded_for_this) {
    const std::size_t bytes = bytes_of_labels(content);
    if (bytes > bytes_left) return out_of_bytes();
    bytes_left -= bytes;
  }
  const bool kept = keep(content, all_rested);
  if (content.unchanged()) return remembered_[content.remembered].set;
  if (content.copies == content.slots && !kept) return std::move(content.set);
  return content.set;
}

/// Whether a content is for the next reading, too: if it can be known to be the same by then, and
/// there is room.
bool SlotReader::keep(Content& content, bool all_rested) {
  if (!content.kept) {
    const std::size_t bytes = bytes_of_labels(content);
    content.kept = content.unchanged() || ((content.mark || all_rested) && bytes <= room_);
    if (*content.kept) room_ -= std::min(bytes, room_);
  }
  return *content.kept;
}

void SlotReader::remember(std::span<const SeenThread> threads, Readings readings,
                          const std::vector<bool>& rested, const std::vector<bool>& trusted) {
  const bool all_rested = std::find(rested.begin(), rested.end(), false) == rested.end();
  std::vector<bool> whole(readings.contents.size());
  std::size_t wholes = 0;
  bool changed = remembered_.size() > 2 * readings.contents.size();
  for (std::size_t i = 0; i < readings.contents.size(); ++i) {
    Content& content = readings.contents[i];
    whole[i] =
        keep(content, all_rested) &&
        (content.unchanged() || (trusted[i] && content.set && content.set->truncated.empty() &&
                                 content.set->defects.empty()));
    wholes += whole[i];
    changed = changed || (whole[i] && !content.unchanged());
  }

  last_.clear();
  for (const SeenThread& thread : threads) last_.push_back({thread.id, thread.runs});
  last_slots_.clear();
  all_remembered_ = all_rested && wholes == readings.contents.size();
  for (const SlotReading& slot : readings.slots) {
    const bool proven = slot.steady || (rested[slot.thread] && !slot.error);
    const bool constant = slot.content == SlotReading::no_content ||
                          (whole[slot.content] && readings.contents[slot.content].mark);
    last_slots_.push_back({slot.record, proven, constant});
    all_remembered_ = all_remembered_ && proven;
  }

  if (!changed) return;  // as most often
  std::vector<Remembered> now;
  remembered_index_.clear();
  for (std::size_t i = 0; i < readings.contents.size(); ++i) {
    if (!whole[i]) continue;
    Content& content = readings.contents[i];
    remembered_index_.insert(content_key(content.record, content.definition),
                             static_cast<std::uint32_t>(now.size()));
    if (content.unchanged())
      now.push_back(std::move(remembered_[content.remembered]));
    else
      now.push_back({content.mark, std::move(*content.set)});
  }
  remembered_ = std::move(now);
}

}  // namespace vitrine::observe
