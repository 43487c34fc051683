#include "format/process_context.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "abi/process_context.hpp"
#include "base/limits.hpp"

namespace vitrine::format {
namespace {

namespace header_layout = abi::process_context;
using Outcome = ContextAttempt::Outcome;

using HeaderBytes = std::array<std::byte, sizeof(header_layout::Header)>;

Result<ContextHeader> parse(const HeaderBytes& bytes, std::size_t got, Address at) {
  header_layout::HeaderV1 old;
  std::memcpy(&old, bytes.data(), sizeof old);
  if (got < sizeof old ||
      std::memcmp(old.signature, header_layout::signature, sizeof old.signature) != 0)
    return fail(ErrorCode::malformed,
                fmt::format("process context at {}: {}", hex(at),
                            got < sizeof old ? "its header is not readable" : "no signature"));
  if (old.version == header_layout::version_1)
    return ContextHeader{old.version, old.payload_size, 0, old.payload};
  if (old.version != header_layout::version)
    return fail(
        ErrorCode::unsupported,
        fmt::format("process context at {}: unknown version {}; versions 1 and 2 are supported",
                    hex(at), old.version));
  header_layout::Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (got < sizeof header)
    return fail(ErrorCode::malformed,
                fmt::format("process context at {}: its header is not readable", hex(at)));
  return ContextHeader{header.version, header.payload_size, header.published_at_ns, header.payload};
}

/// A payload that no publisher means. Torn headers can show one, too.
Result<void> check_payload(const ContextHeader& header, Address at) {
  if (header.payload < limits::lowest_address)
    return fail(ErrorCode::malformed, fmt::format("process context at {}: payload address {}",
                                                  hex(at), hex(header.payload)));
  if (header.payload_size == 0)
    return fail(ErrorCode::malformed,
                fmt::format("process context at {}: its payload is empty", hex(at)));
  if (header.payload_size > limits::context_payload_bytes)
    return fail(ErrorCode::limit,
                fmt::format("process context at {}: payload of {} bytes exceeds the limit of {}",
                            hex(at), header.payload_size, limits::context_payload_bytes));
  return {};
}

}  // namespace

Result<ContextHeader> read_context_header(Memory& memory, Address at) {
  HeaderBytes bytes{};
  const std::size_t got = memory.read_some(at, bytes);
  return parse(bytes, got, at);
}

Result<ContextAttempt> attempt_context(Memory& memory, Address at, std::uint64_t known_stamp) {
  HeaderBytes before{}, after{};
  const auto header = TRY(parse(before, memory.read_some(at, before), at));
  ContextAttempt attempt{Outcome::complete, header, {}};
  if (header.version == header_layout::version) {
    if (header.stamp == 0) attempt.outcome = Outcome::updating;
    if (header.stamp != 0 && header.stamp == known_stamp) attempt.outcome = Outcome::unchanged;
    if (attempt.outcome != Outcome::complete) return attempt;
  }

  const auto sound = check_payload(header, at);
  if (sound) attempt.payload.resize(header.payload_size);
  ReadRequest requests[] = {{header.payload, attempt.payload, 0}, {at, after, 0}};
  memory.read(requests);
  // The bytes of one copy have no order, so any difference counts, not the stamp's alone.
  if (before != after)
    attempt.outcome = Outcome::changed;
  else if (!sound)
    TRY(sound);
  else if (!requests[0].complete())
    attempt.outcome = Outcome::unreadable;
  return attempt;
}

bool operator==(const AnyValue& left, const AnyValue& right) {
  const auto* const number = std::get_if<double>(&left.data);
  const auto* const other = std::get_if<double>(&right.data);
  if (number != nullptr && other != nullptr)  // what is not a number is the same, too
    return std::bit_cast<std::uint64_t>(*number) == std::bit_cast<std::uint64_t>(*other);
  return left.data == right.data;
}

bool operator==(const KeyValue& left, const KeyValue& right) {
  return left.key == right.key && left.value == right.value;
}

const AnyValue* find(const KeyValueList& list, std::string_view key) {
  const auto found = std::find_if(list.rbegin(), list.rend(),
                                  [&](const KeyValue& entry) { return entry.key == key; });
  return found == list.rend() ? nullptr : &found->value;
}

const std::string* find_text(const KeyValueList& list, std::string_view key) {
  const AnyValue* value = find(list, key);
  return value ? std::get_if<std::string>(&value->data) : nullptr;
}

namespace {

void note_repeated_keys(ProcessContext& context, const char* where, const KeyValueList& list) {
  std::unordered_set<std::string_view> seen;
  std::size_t repeated = 0;
  for (const KeyValue& entry : list)
    if (!seen.insert(entry.key).second) ++repeated;
  if (repeated != 0)
    context.defects.push_back(fmt::format("{}: repeated keys: {}", where, repeated));
}

}  // namespace

void note_cut(ProcessContext& context, const char* what, std::string detail) {
  const auto& cuts = context.truncated;
  const bool noted = std::any_of(cuts.begin(), cuts.end(),
                                 [&](const Truncation& cut) { return cut.what == what; });
  if (!noted) context.truncated.push_back({what, std::move(detail)});
}

Result<ProcessContext> decode_payload(std::uint32_t version, std::span<const std::byte> payload) {
  if (version != abi::process_context::version && version != abi::process_context::version_1)
    return fail(ErrorCode::unsupported,
                fmt::format("process context: unknown version {}; versions 1 and 2 are supported",
                            version));
  auto context = TRY(version == abi::process_context::version ? decode_protobuf(payload)
                                                              : decode_msgpack(payload));
  context.version = version;
  note_repeated_keys(context, "resource", context.resource);
  note_repeated_keys(context, "attributes", context.attributes);
  return context;
}

}  // namespace vitrine::format
