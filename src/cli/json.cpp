#include "cli/json.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>

#include "cli/text.hpp"

namespace vitrine::cli {
namespace {

std::string base64(std::string_view bytes) {
  static constexpr char alphabet[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = (group << 8) | (k < n ? static_cast<std::uint8_t>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      out += k <= n ? alphabet[(group >> (18 - 6 * k)) & 63] : '=';
  }
  return out;
}

}  // namespace

Json json_bytes(std::string_view bytes) {
  if (is_utf8(bytes)) return bytes;
  return {{"base64", base64(bytes)}};
}

std::string hex_id(std::span<const std::uint8_t> id) {
  std::string out;
  for (const std::uint8_t byte : id) out += fmt::format("{:02x}", byte);
  return out;
}

Json to_json(const observe::ThreadLabels& thread) {
  Json object = {{"pid", thread.pid},
                 {"tid", thread.tid},
                 {"comm", json_bytes(thread.comm)},
                 {"format", format::name(thread.format)},
                 {"module", json_bytes(thread.module)},
                 {"mode", observe::name(thread.mode)}};
  if (!thread.set) {
    object["error"] = json_bytes(thread.set.error().message);
    return object;
  }
  const format::LabelSet& set = *thread.set;
  object["evidence"] = observe::name(thread.evidence);
  Json& labels = object["labels"] = Json::array();
  for (const format::Label& label : set.labels)
    labels.push_back({{"key", json_bytes(label.key)}, {"value", json_bytes(label.value)}});
  if (set.trace) {
    object["trace_id"] = hex_id(set.trace->trace_id);
    object["span_id"] = hex_id(set.trace->span_id);
    if (set.trace->trace_flags) object["trace_flags"] = *set.trace->trace_flags;
  }
  if (!set.truncated.empty()) {
    Json& truncated = object["truncated"] = Json::array();
    for (const format::Truncation& cut : set.truncated)
      truncated.push_back({{"what", cut.what}, {"detail", json_bytes(cut.detail)}});
  }
  if (!set.defects.empty()) {
    Json& defects = object["defects"] = Json::array();
    for (const std::string& defect : set.defects) defects.push_back(json_bytes(defect));
  }
  return object;
}

bool print_json(const Json& object) {
  const std::string line = object.dump() + '\n';
  return std::fwrite(line.data(), 1, line.size(), stdout) == line.size() &&
         std::fflush(stdout) == 0;
}

}  // namespace vitrine::cli
