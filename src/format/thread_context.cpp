#include "format/thread_context.hpp"

#include <fmt/format.h>

#include <bitset>

#include "abi/thread_context.hpp"
#include "format/set_builder.hpp"

namespace vitrine::format {
namespace {

namespace record_layout = abi::thread_context;

/// What the two headers have in common, and where the entries {u8 key, u8 length, bytes} end.
struct Header {
  TraceContext trace;
  std::uint8_t valid = 0;
  std::size_t size = 0;          ///< of the header itself
  std::size_t most_bytes = 0;    ///< the attributes end here at the latest
  std::size_t most_entries = 0;  ///< or with this many
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

Attributes parse(std::span<const std::byte> bytes, const Header& header, SetBuilder& set) {
  Attributes attributes;
  std::size_t at = 0;
  for (std::size_t n = 0; n < header.most_entries && at < header.most_bytes; ++n) {
    const auto rest = bytes.subspan(at);
    const bool fits = rest.size() >= entry_head &&
                      rest.size() - entry_head >= std::to_integer<std::size_t>(rest[1]);
    if (!fits && bytes.size() < header.most_bytes) {
      set.cut("attributes", fmt::format("kept {}; the rest is not readable", n));
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

std::string text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
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
    std::string key = name->substr(0, set.limits().key_bytes);
    const auto all = attributes.values[index];
    const auto value = all.first(std::min(all.size(), set.limits().value_bytes));
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
    set.add({std::move(key), text(value)});
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
    set.record_bytes(header.size + header.most_bytes);
  std::vector<std::byte> bytes(header.most_bytes);
  bytes.resize(memory.read_some(record + header.size, bytes));
  add_labels(parse(bytes, header, set), context.keys, set);
  return set.finish();
}

}  // namespace vitrine::format
