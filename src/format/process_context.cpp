#include "format/process_context.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "abi/process_context.hpp"
#include "format/payload.hpp"

namespace vitrine::format {
namespace {

void note_repeated_keys(ProcessContext& context, const char* where, const KeyValueList& list) {
  std::unordered_set<std::string_view> seen;
  std::size_t repeated = 0;
  for (const KeyValue& entry : list)
    if (!seen.insert(entry.key).second) ++repeated;
  if (repeated != 0)
    context.defects.push_back(fmt::format("{}: {} keys are repeated", where, repeated));
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
                fmt::format("process context: unknown version {}; versions 1 and 2 are supported", version));
  auto context = TRY(version == abi::process_context::version ? decode_protobuf(payload)
                                                              : decode_msgpack(payload));
  context.version = version;
  note_repeated_keys(context, "resource", context.resource);
  note_repeated_keys(context, "attributes", context.attributes);
  return context;
}

}  // namespace vitrine::format
