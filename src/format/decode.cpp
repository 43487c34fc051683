#include "format/decode.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "abi/thread_context.hpp"
#include "base/limits.hpp"
#include "format/formats.hpp"

namespace vitrine::format {
namespace {

constexpr std::size_t table_max = limits::key_map_entries * (1 + 255);  // {u8 length, name} each

}  // namespace

Result<KeyMap> read_key_table(Memory& memory, Address reference, Address address_mask) {
  using abi::thread_context::DraftReference;
  auto head = TRY(memory.read_value<DraftReference>(reference & address_mask, "draft A reference"));
  if (head.schema_version != 1)
    return fail(ErrorCode::unsupported,
                fmt::format("draft A reference: unknown schema version {}; version 1 is supported",
                            head.schema_version));
  const Address table = head.key_table & address_mask;
  const auto size = TRY(memory.read_value<std::uint32_t>(table, "draft A key table"));

  std::vector<std::byte> bytes(std::min<std::size_t>(size, table_max));
  bytes.resize(memory.read_some(table + sizeof size, bytes));
  KeyMap map;
  for (std::size_t at = 0; at < bytes.size() && map.names.size() < limits::key_map_entries;) {
    const auto length = std::to_integer<std::size_t>(bytes[at]);
    if (bytes.size() - at - 1 < length) break;
    map.names.emplace_back(std::in_place, reinterpret_cast<const char*>(bytes.data()) + at + 1,
                           length);
    at += 1 + length;
  }
  return map;
}

Result<Address> record_of(Format format, Memory& memory, Address slot) {
  if (!slot_is_pointer(format)) return slot;
  return memory.read_value<std::uint64_t>(slot, "thread-local slot");
}

Result<Decoded> decode(Format format, Memory& memory, Address slot, const DecodeContext& context) {
  const Address record = TRY(record_of(format, memory, slot));
  return decode_record(format, memory, record, context);
}

Result<Decoded> decode_record(Format format, Memory& memory, Address record,
                              const DecodeContext& context) {
  if (record == 0) return Decoded{};
  const Address at = record & context.address_mask;
  if (at < limits::lowest_address)
    return fail(ErrorCode::malformed,
                fmt::format("thread-local slot: {} is not an address", hex(record)));
  switch (format) {
    case Format::custom_labels_v0:
    case Format::custom_labels_v1:
      return decode_custom_labels(memory, at, context);
    case Format::v2_draft_a:
    case Format::v2_draft_b:
    case Format::v2_draft_c:
    case Format::v2_draft_d:
    case Format::otel_thread_ctx_v1:
      return decode_thread_context(format, memory, at, context);
    case Format::elastic_v1:
      return decode_elastic(memory, at, context);
  }
  return fail(ErrorCode::unsupported, "no such format");
}

namespace {

constexpr std::size_t max_notes = 16;          // of a kind, in one set
constexpr std::size_t linear_search_max = 16;  // labels; a typical set stays below

}  // namespace

SetBuilder::SetBuilder(const DecodeContext& context)
    : limits_(limits::within_hard_caps(context.limits)),
      mask_(context.address_mask),
      snapshot_left_(context.bytes_left),
      thread_left_(limits_.bytes_per_thread) {}

bool SetBuilder::charge(std::size_t bytes) {
  if (out_of_bytes_) return false;
  const bool thread_full = bytes > thread_left_;
  if (thread_full || (snapshot_left_ && bytes > *snapshot_left_)) {
    out_of_bytes_ = true;
    cut("bytes", thread_full
                     ? fmt::format("kept {} labels: {} bytes per thread is the limit", size(),
                                   limits_.bytes_per_thread)
                     : fmt::format("kept {} labels: the snapshot's limit is reached", size()));
    return false;
  }
  thread_left_ -= bytes;
  if (snapshot_left_) *snapshot_left_ -= bytes;
  return true;
}

bool SetBuilder::contains(const std::string& key) {
  const auto& labels = result_.set.labels;
  if (labels.size() <= linear_search_max)
    return std::any_of(labels.begin(), labels.end(),
                       [&](const Label& label) { return label.key == key; });
  for (std::size_t i = keys_.size(); i < labels.size(); ++i) keys_.insert(labels[i].key);
  return keys_.count(key) != 0;
}

void SetBuilder::cut(const char* what, std::string detail) {
  if (result_.set.truncated.size() < max_notes)
    result_.set.truncated.push_back({what, std::move(detail)});
  else
    ++cuts_left_out_;
}

void SetBuilder::defect(SetRule rule, std::string text) {
  if (result_.set.defects.size() < max_notes)
    result_.set.defects.push_back({rule, std::move(text)});
  else
    ++result_.set.defects_left_out;
}

void SetBuilder::trace(const TraceContext& trace) {
  if (!trace.is_empty()) result_.set.trace = trace;
}

Decoded SetBuilder::finish() {
  if (cuts_left_out_ != 0)
    result_.set.truncated.push_back({"notes", fmt::format("and {} more cuts", cuts_left_out_)});
  return std::move(result_);
}

}  // namespace vitrine::format
