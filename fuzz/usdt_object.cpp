// The object step on one object: whatever the object says, what comes out can be processed again,
// and then nothing changes.
#include <vector>

#include "input.hpp"
#include "shop_provider.hpp"
#include "usdt/object_parser.hpp"

using namespace vitrine;

namespace {

bool same(const usdt::FunctionSites& a, const usdt::FunctionSites& b) {
  return a.provider == b.provider && a.probe == b.probe && a.function == b.function &&
         a.alias == b.alias && a.offsets == b.offsets && a.enabled_offsets == b.enabled_offsets;
}

void process(std::span<const std::byte> object, const usdt::DeclaredProbes& declared,
             const usdt::SiteRules& rules) {
  const auto first = usdt::rewrite(object, declared, rules, "salt");
  // A worker hands it over as it is.
  const auto packed = usdt::pack_rewritten(first);
  const auto unpacked = usdt::unpack_rewritten(packed, declared);
  fuzz::require(unpacked && unpacked->has_value() == first.has_value());
  fuzz::require(usdt::pack_rewritten(*unpacked) == packed);
  if (!first || first->bytes.empty()) return;
  fuzz::require(first->bytes.size() >= object.size());
  const auto second = usdt::rewrite(first->bytes, declared, rules, "salt");
  fuzz::require(second && second->bytes.empty());
  fuzz::require(std::equal(first->functions.begin(), first->functions.end(),
                           second->functions.begin(), second->functions.end(), same));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const usdt::Definition all = fuzz::shop_provider();
  static const usdt::DeclaredProbes declared(all);
  process(fuzz::bytes(data, size), declared, {usdt::EnabledProtocol::return_value, false});
  process(fuzz::bytes(data, size), declared, {usdt::EnabledProtocol::pointer, true});
  return 0;
}
