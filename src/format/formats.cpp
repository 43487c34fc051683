#include "format/formats.hpp"

#include <fmt/format.h>

#include <array>
#include <bitset>
#include <string_view>
#include <unordered_set>

#include "abi/custom_labels.hpp"
#include "abi/elastic.hpp"
#include "abi/thread_context.hpp"
#include "base/text.hpp"
#include "format/decode.hpp"
#include "format/unreadable.hpp"

namespace vitrine::format {
namespace {

namespace layout = abi::custom_labels;

/// No user memory is at or above it (x86-64 with five levels and aarch64 have 56 bits at most).
constexpr Address end_of_addresses = Address{1} << 57;

// How details of truncations end that no limit made (is_unreadable).
constexpr std::string_view not_readable = "the rest is not readable";
constexpr std::string_view beyond_memory = "the rest is beyond all memory";

constexpr std::size_t entries_per_read = 256;  // 8 KiB: nearly every set in one read

std::size_t smaller(std::uint64_t length, std::size_t cap) {
  return static_cast<std::size_t>(std::min<std::uint64_t>(length, cap));
}

/// A string of the target, on its way here. `into` has the size that is wanted, and after reading
/// the size that was readable.
struct StringRead {
  std::size_t entry;  ///< of the label array, for messages
  layout::String source;
  std::size_t wanted;
  std::string* into;
};

/// Other writers of v1 put the ids of a trace under these names as raw bytes, vitrine as text. Text is what
/// everything behind the decoder sees, so that filters, groups and redaction take both for the same. Hex digits
/// alone are text that is as short: a 64-bit trace id.
void as_text_if_raw_id(Label& label, std::uint64_t length) {
  const std::size_t raw_bytes = label.key == "trace_id" ? 16 : label.key == "span_id" ? 8 : 0;
  if (raw_bytes == 0 || length != raw_bytes || label.value.size() != raw_bytes) return;
  if (label.value.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos) return;
  label.value = hex_text(std::as_bytes(std::span(label.value)));
}

/// One pass over the label array, chunk by chunk. Keys come in one batch, then the values of those
/// keys that were new: a duplicate's value is not read.
class ArrayDecoder {
 public:
  ArrayDecoder(Memory& memory, const DecodeContext& context)
      : memory_(memory), is_copy_(context.is_copy), set_(context) {}

  Result<Decoded> run(std::uint64_t storage, std::uint64_t count);

 private:
  struct Candidate {
    std::size_t entry;
    layout::Label label;
    std::string key;
  };

  bool decode_chunk(std::size_t first, std::span<const layout::Label> entries);
  bool gather(std::size_t first, std::span<const layout::Label> entries);
  void read_strings();
  [[nodiscard]] bool is_lacking(const StringRead& string) const;
  bool keep_known_keys();
  bool keep_whole_values(std::size_t first, std::size_t count);
  bool usable_key(const StringRead& key);
  void note_cut(const char* what, const StringRead& string);

  Memory& memory_;
  bool is_copy_;
  SetBuilder set_;
  std::unordered_set<std::string> without_value_;  ///< keys of entries with a null value
  std::uint64_t count_ = 0;
  std::vector<Candidate> candidates_;
  std::vector<StringRead> strings_;  ///< the chunk's keys, then its values
  std::vector<ReadRequest> requests_;
};

/// Text that a limit cuts ends between two characters: it stays text.
void end_between_characters(StringRead& string) {
  if (string.into->size() < string.wanted || string.wanted == string.source.len) return;
  string.wanted = whole_characters(*string.into);
  string.into->resize(string.wanted);
}

void ArrayDecoder::read_strings() {
  requests_.clear();
  requests_.reserve(strings_.size());
  for (const StringRead& string : strings_) {
    const Address address = set_.pointer(string.source.buf);
    const std::size_t length = address < limits::lowest_address ? 0 : string.into->size();
    requests_.push_back(
        {address, std::as_writable_bytes(std::span(string.into->data(), length)), 0});
  }
  memory_.read(requests_);
  for (std::size_t i = 0; i < strings_.size(); ++i) {
    strings_[i].into->resize(requests_[i].got);
    end_between_characters(strings_[i]);
  }
}

void ArrayDecoder::note_cut(const char* what, const StringRead& string) {
  const std::size_t kept = string.into->size();
  if (kept == string.source.len) return;
  const Address address = std::min(set_.pointer(string.source.buf), end_of_addresses);
  const std::string_view why = kept < string.wanted                             ? not_readable
                               : string.source.len > end_of_addresses - address ? beyond_memory
                                                                                : "";
  set_.cut(what, fmt::format("label {}: kept {} of {} bytes{}{}", string.entry, kept,
                             string.source.len, why.empty() ? "" : ", ", why));
}

/// Collects the entries that are labels, within the byte budgets. False: take no more after these.
bool ArrayDecoder::gather(std::size_t first, std::span<const layout::Label> entries) {
  candidates_.clear();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const layout::Label& entry = entries[i];
    if (entry.key.buf == 0) continue;
    const std::size_t key_bytes = smaller(entry.key.len, set_.limits().key_bytes);
    if (!set_.charge(sizeof entry + key_bytes)) return false;
    candidates_.push_back({first + i, entry, std::string(key_bytes, '\0')});
  }
  return true;
}

bool ArrayDecoder::usable_key(const StringRead& key) {
  if (key.wanted != 0 && key.into->empty()) {
    set_.defect(SetRule::key_readable, fmt::format("label {}: its key at {} is not readable",
                                                   key.entry, hex(key.source.buf)));
    return false;
  }
  note_cut("key", key);
  return true;
}

/// Whether the process may have more of it than this copy.
bool ArrayDecoder::is_lacking(const StringRead& string) const {
  return is_copy_ && string.into->size() < string.wanted &&
         set_.pointer(string.source.buf) >= limits::lowest_address;
}

/// Of the chunk's candidates, once their keys were read from a copy: those before the first key that the copy lacks.
/// What follows may repeat that key, and would be outdated. False: take no more after these.
bool ArrayDecoder::keep_known_keys() {
  const auto lacking = std::find_if(strings_.begin(), strings_.end(),
                                    [this](const StringRead& key) { return is_lacking(key); });
  if (lacking == strings_.end()) return true;
  set_.cut("labels",
           fmt::format("kept those before label {}, whose key was not copied", lacking->entry));
  candidates_.resize(static_cast<std::size_t>(lacking - strings_.begin()));
  return false;
}

/// Of `count` labels from `first` on, whose values were read: removes those whose values a copy lacks. False: it did, and
/// what follows may repeat their keys.
bool ArrayDecoder::keep_whole_values(std::size_t first, std::size_t count) {
  bool whole = true;
  for (std::size_t i = 0; i < count; ++i) {
    if (is_lacking(strings_[i])) {
      set_.cut("labels",
               fmt::format("label {}: left out, its value was not copied", strings_[i].entry));
      whole = false;
    } else {
      note_cut("value", strings_[i]);
      as_text_if_raw_id(set_.label(first + i), strings_[i].source.len);
    }
  }
  if (whole) return true;
  for (std::size_t i = count; i-- > 0;)
    if (is_lacking(strings_[i])) set_.remove(first + i);
  return false;
}

bool ArrayDecoder::decode_chunk(std::size_t first, std::span<const layout::Label> entries) {
  bool more = gather(first, entries);

  strings_.clear();
  strings_.reserve(candidates_.size());
  for (Candidate& candidate : candidates_)
    strings_.push_back(
        {candidate.entry, candidate.label.key, candidate.key.size(), &candidate.key});
  read_strings();
  more &= keep_known_keys();

  const std::size_t already = set_.size();
  set_.expect(candidates_.size());
  std::size_t values = 0;  // they take the places of keys that were looked at
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    Candidate& candidate = candidates_[i];
    if (!usable_key(strings_[i])) continue;
    if (set_.contains(candidate.key) || without_value_.contains(candidate.key)) {
      set_.repeated();
      continue;
    }
    // It is no label, and hides later ones of its key as one would.
    if (candidate.label.value.buf == 0) {
      set_.defect(SetRule::value_present,
                  fmt::format("label {}: its value is a null pointer", candidate.entry));
      without_value_.insert(std::move(candidate.key));
      continue;
    }
    if (set_.full()) {
      set_.cut("labels", fmt::format("kept {} of {} entries", set_.size(), count_));
      more = false;
      break;
    }
    const layout::String& value = candidate.label.value;
    const std::size_t value_bytes = smaller(value.len, set_.limits().value_bytes);
    if (!set_.charge(value_bytes)) {
      more = false;
      break;
    }
    set_.add({std::move(candidate.key), std::string(value_bytes, '\0')});
    strings_[values++] = {candidate.entry, value, value_bytes, nullptr};
  }
  strings_.resize(values);
  // Only now do the labels stay where they are.
  for (std::size_t i = 0; i < values; ++i) strings_[i].into = &set_.label(already + i).value;
  read_strings();
  return keep_whole_values(already, values) && more;
}

Result<Decoded> ArrayDecoder::run(std::uint64_t storage, std::uint64_t count) {
  count_ = count;
  const Address array = set_.pointer(storage);
  if (array < limits::lowest_address)
    return fail(ErrorCode::malformed,
                fmt::format("label array: {} is not an address ({} labels)", hex(storage), count));
  // No set that we would show in full has more entries.
  const std::size_t most = smaller(count, limits::hard_label_limits.labels_per_set);

  std::array<layout::Label, entries_per_read> entries;  // not cleared: nearly all of it is unused
  for (std::size_t first = 0; first < most; first += entries_per_read) {
    const std::size_t wanted = std::min(entries_per_read, most - first);
    const std::size_t got =
        memory_.read_some(array + first * sizeof(layout::Label),
                          std::as_writable_bytes(std::span(entries).first(wanted))) /
        sizeof(layout::Label);
    if (first + got == 0)
      return fail(ErrorCode::malformed,
                  fmt::format("label array: {} is not readable ({} labels)", hex(storage), count));
    const bool more = decode_chunk(first, std::span(entries).first(got));
    if (!more) return set_.finish();
    if (got < wanted) {
      set_.cut("labels",
               fmt::format("read {} of {} entries; {}", first + got, count, not_readable));
      return set_.finish();
    }
  }
  if (count > most) set_.cut("labels", fmt::format("read {} of {} entries", most, count));
  return set_.finish();
}

}  // namespace

bool is_unreadable(const Truncation& cut) {
  return cut.detail.ends_with(not_readable) || cut.detail.ends_with(beyond_memory);
}

Result<Decoded> decode_custom_labels(Memory& memory, Address set, const DecodeContext& context) {
  // v1 has a third member, which readers ignore.
  auto head = TRY(memory.read_value<layout::SetV0>(set, "label set"));
  if (head.count == 0) return Decoded{};
  return ArrayDecoder(memory, context).run(head.storage, head.count);
}

Result<Decoded> decode_elastic(Memory& memory, Address at, const DecodeContext& context) {
  auto record = TRY(memory.read_value<abi::elastic::Record>(at, "Elastic record"));
  SetBuilder set(context);
  if (const unsigned minor = record.minor_version; minor != 1)
    set.defect(SetRule::minor_version, fmt::format("minor version is {}, not 1", minor));
  if (record.valid > 1)
    set.defect(SetRule::valid_is_boolean, fmt::format("valid is {}, not 0 or 1", record.valid));
  if (record.valid != 1 || record.trace_present == 0) return set.finish();

  TraceContext trace;
  std::copy(std::begin(record.trace_id), std::end(record.trace_id), trace.trace_id.begin());
  std::copy(std::begin(record.span_id), std::end(record.span_id), trace.span_id.begin());
  std::copy(std::begin(record.transaction_id), std::end(record.transaction_id),
            trace.root_span_id.emplace().begin());
  trace.trace_flags = record.trace_flags;
  set.trace(trace);
  return set.finish();
}

namespace {

namespace record_layout = abi::thread_context;

/// What the two headers have in common, and where the entries {u8 key, u8 length, bytes} end.
struct Header {
  TraceContext trace;
  std::uint8_t valid = 0;
  std::size_t size = 0;         ///< of the header itself
  std::size_t max_bytes = 0;    ///< the attributes end here at the latest
  std::size_t max_entries = 0;  ///< or with this many
};

template <class Record>
TraceContext trace_of(const Record& record) {
  TraceContext trace;
  std::copy(std::begin(record.trace_id), std::end(record.trace_id), trace.trace_id.begin());
  std::copy(std::begin(record.span_id), std::end(record.span_id), trace.span_id.begin());
  return trace;
}

constexpr std::size_t entry_head = 2;
constexpr std::size_t entry_max = entry_head + record_layout::attribute_value_max;

Result<Header> read_header(Format format, Memory& memory, Address at) {
  if (format == Format::v2_draft_a || format == Format::v2_draft_b) {
    const auto record = TRY(memory.read_value<record_layout::DraftRecord>(at, "thread record"));
    TraceContext trace = trace_of(record);
    std::copy(std::begin(record.root_span_id), std::end(record.root_span_id),
              trace.root_span_id.emplace().begin());
    return Header{trace, record.valid, sizeof record, record.attrs_count * entry_max,
                  record.attrs_count};
  }
  const auto record = TRY(memory.read_value<record_layout::Record>(at, "thread record"));
  TraceContext trace = trace_of(record);
  if (format == Format::otel_thread_ctx_v1) trace.trace_flags = record.trace_flags;
  return Header{trace, record.valid, sizeof record, record.attrs_size, record.attrs_size};
}

/// The last value of each key index, as views into the record's bytes.
struct Attributes {
  std::array<std::span<const std::byte>, limits::key_map_entries> values{};
  std::bitset<limits::key_map_entries> present;
};

/// `is_copy` as in DecodeContext: none of those that are there counts, if one that is lacking may have the same index.
Attributes parse(std::span<const std::byte> bytes, const Header& header, bool is_copy,
                 SetBuilder& set) {
  Attributes attributes;
  std::size_t at = 0;
  for (std::size_t n = 0; n < header.max_entries && at < header.max_bytes; ++n) {
    const auto rest = bytes.subspan(at);
    const bool fits = rest.size() >= entry_head &&
                      rest.size() - entry_head >= std::to_integer<std::size_t>(rest[1]);
    if (!fits && bytes.size() < header.max_bytes && is_copy) {
      set.cut("attributes", fmt::format("left out: {} of {} bytes were not copied",
                                        header.max_bytes - bytes.size(), header.max_bytes));
      return {};
    }
    if (!fits && bytes.size() < header.max_bytes) {
      set.cut("attributes", fmt::format("kept {}; {}", n, not_readable));
      break;
    }
    if (!fits) {
      set.defect(SetRule::attributes_fit,
                 fmt::format("attribute {} runs past the record's end", n));
      break;
    }
    const auto key = std::to_integer<std::size_t>(rest[0]);
    const auto length = std::to_integer<std::size_t>(rest[1]);
    if (attributes.present.test(key)) set.repeated();
    attributes.values[key] = rest.subspan(entry_head, length);
    attributes.present.set(key);
    at += entry_head + length;
  }
  return attributes;
}

std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// `all`, or of text that is longer the characters that fit.
std::string beginning(std::string_view all, std::size_t max_bytes) {
  if (all.size() <= max_bytes) return std::string(all);
  return std::string(all.substr(0, whole_characters(all.substr(0, max_bytes))));
}

/// A name that the key map gives to an index; null, and noted, when it has none.
const std::string* name_of(std::size_t index, const KeyMap* keys, SetBuilder& set) {
  if (!keys || index >= keys->names.size()) {
    set.ask_for_key_map();
    set.defect(SetRule::key_in_map, fmt::format("attribute key {} is not in the key map ({} names)",
                                                index, keys ? keys->names.size() : 0));
    return nullptr;
  }
  const auto& name = keys->names[index];
  if (!name)
    set.defect(SetRule::key_in_map,
               fmt::format("attribute key {} has no name in the key map", index));
  return name ? &*name : nullptr;
}

void add_labels(const Attributes& attributes, const KeyMap* keys, SetBuilder& set) {
  for (std::size_t index = 0; index < attributes.values.size(); ++index) {
    if (!attributes.present.test(index)) continue;
    const std::string* name = name_of(index, keys, set);
    if (!name) continue;
    const std::string key = beginning(*name, set.limits().key_bytes);
    const std::string_view all = text(attributes.values[index]);
    const std::string value = beginning(all, set.limits().value_bytes);
    if (set.contains(key)) {
      set.defect(SetRule::keys_unique,
                 fmt::format("attribute key {} has the name of an earlier one", index));
      continue;
    }
    if (set.full()) {
      set.cut("labels", fmt::format("kept {} of {}", set.size(), attributes.present.count()));
      return;
    }
    if (!set.charge(entry_head + key.size() + value.size())) return;
    if (key.size() < name->size())
      set.cut("key", fmt::format("key {}: kept {} of {} bytes", index, key.size(), name->size()));
    if (value.size() < all.size())
      set.cut("value", fmt::format("key {}: kept {} of {} bytes", index, value.size(), all.size()));
    set.add({key, value});
  }
}

}  // namespace

Result<Decoded> decode_thread_context(Format format, Memory& memory, Address record,
                                      const DecodeContext& context) {
  auto header = TRY(read_header(format, memory, record));
  SetBuilder set(context);
  if (record % 2 != 0)
    set.defect(SetRule::record_aligned, fmt::format("the record's address {} is odd", hex(record)));
  if (header.valid > 1)
    set.defect(SetRule::valid_is_boolean, fmt::format("valid is {}, not 0 or 1", header.valid));
  if (header.valid != 1) return set.finish();
  set.trace(header.trace);

  if (format != Format::v2_draft_a && format != Format::v2_draft_b)
    set.record_bytes(header.size + header.max_bytes);
  std::vector<std::byte> bytes(header.max_bytes);
  bytes.resize(memory.read_some(record + header.size, bytes));
  add_labels(parse(bytes, header, context.is_copy, set), context.keys, set);
  return set.finish();
}

}  // namespace vitrine::format
