// Records of all formats. The first byte chooses the format; the rest is the target's memory, which
// begins with the slot. A cached view of the memory must decode to the same labels.
#include "base/memory.hpp"
#include "format/decode.hpp"
#include "input.hpp"

using namespace vitrine;

namespace {

const format::KeyMap keys{{"tenant", std::nullopt, "route", "user"}};

void check(const format::LabelSet& set, const limits::LabelLimits& limits) {
  fuzz::require(set.labels.size() <= limits.labels_per_set);
  std::size_t bytes = 0;
  for (const format::Label& label : set.labels) {
    fuzz::require(label.key.size() <= limits.key_bytes);
    fuzz::require(label.value.size() <= limits.value_bytes);
    bytes += label.key.size() + label.value.size();
  }
  fuzz::require(bytes <= limits.bytes_per_thread);
  fuzz::require(set.truncated.size() <= 20 && set.defects.size() <= 20);
  for (std::size_t i = 0; i < set.labels.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) fuzz::require(set.labels[i].key != set.labels[j].key);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto format = static_cast<format::Format>(data[0] % 8);
  fuzz::RegionMemory memory(fuzz::base, fuzz::bytes(data + 1, size - 1));
  WindowMemory windows(memory, 1000);

  format::DecodeContext context;
  context.keys = &keys;
  context.limits = {16, 20, 40, 300, 1000};
  const auto plain = format::decode(format, memory, fuzz::base, context);
  const auto cached = format::decode(format, windows, fuzz::base, context);
  fuzz::require(plain.has_value() == cached.has_value());
  if (plain) {
    fuzz::require(plain->set == cached->set);
    check(plain->set, context.limits);
  }

  context.limits = {};
  context.keys = nullptr;
  (void)format::decode(format, memory, fuzz::base, context);
  (void)format::read_key_table(memory, fuzz::base, ~Address{0});
  return 0;
}
