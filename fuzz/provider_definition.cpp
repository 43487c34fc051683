// Provider definition files, and the header that is made of them.
#include "input.hpp"
#include "usdt/definition.hpp"
#include "usdt/header.hpp"
#include "usdt/parse.hpp"

using namespace vitrine;

namespace {

void require_sound(const usdt::Provider& provider, const usdt::Probe& probe) {
  const dof::Prototype& of = probe.prototype;
  fuzz::require(of.native.size() == probe.parameters.size() && of.native.size() <= 255);
  fuzz::require(of.translated.size() == of.argument_map.size());
  for (const std::uint8_t native : of.argument_map) fuzz::require(native < of.native.size());
  for (const auto* list : {&of.native, &of.translated})
    for (const std::string& type : *list) fuzz::require(!type.empty() && type.size() <= 127);
  fuzz::require(!probe.name.empty() && probe.name.size() <= 63);
  fuzz::require(usdt::probe_symbol(provider, probe) ==
                "__dtrace_" + provider.name + "___" + probe.identifier);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto definition = usdt::parse(text, "fuzz.d");
  if (!definition) {
    fuzz::require(definition.error().code == ErrorCode::malformed);
    fuzz::require(!definition.error().message.empty() && !definition.error().remedy.empty());
    return 0;
  }
  fuzz::require(!definition->providers.empty());
  for (const usdt::Provider& provider : definition->providers) {
    fuzz::require(!provider.name.empty() && provider.name.size() <= 63);
    for (const usdt::Probe& probe : provider.probes) require_sound(provider, probe);
  }
  for (const auto protocol : {usdt::EnabledProtocol::semaphore, usdt::EnabledProtocol::return_value,
                              usdt::EnabledProtocol::pointer}) {
    const auto header = usdt::header_text(*definition, {"fuzz.h", protocol});
    fuzz::require(header || header.error().code == ErrorCode::usage);
  }
  return 0;
}
