// What a worker that was asked to rewrite an object returns, which a hostile one may have taken over:
// any bytes. The probe object is made of it.
#include <vector>

#include "input.hpp"
#include "shop_provider.hpp"
#include "usdt/object_parser.hpp"
#include "usdt/probe_object.hpp"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const usdt::Definition all = fuzz::shop_provider();
  static const usdt::DeclaredProbes declared(all);
  const auto bytes = fuzz::bytes(data, size);
  auto object = usdt::unpack_rewritten(bytes, declared);
  if (!object || !*object) return 0;  // of an error, nothing else counts
  fuzz::require(usdt::pack_rewritten(*object) == std::vector(bytes.begin(), bytes.end()));
  if ((*object)->machine == nullptr) return 0;
  usdt::ProbeObjectParts parts;
  parts.machine = (*object)->machine;
  parts.functions = std::move((*object)->functions);
  parts.features = (*object)->features;
  parts.pointer_protocol = (*object)->pointer_protocol;
  static_cast<void>(usdt::probe_object(all, std::move(parts)));
  return 0;
}
