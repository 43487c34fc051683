// The dynamic linker's list of modules, and resolving a thread-local symbol in each of them. The
// input is the executable's image, which holds r_debug, the link map and a library, too.
#include "target/modules.hpp"

#include "elf/symbols.hpp"
#include "input.hpp"
#include "target/tls_resolver.hpp"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 64) return 0;
  fuzz::RegionMemory memory(fuzz::base, fuzz::bytes(data, size));
  std::uint16_t headers = 0;
  std::memcpy(&headers, data + 56, sizeof headers);  // e_phnum
  target::Modules modules({fuzz::base + 64, headers, 0}, "/fuzzed");
  if (!modules.refresh(memory)) return 0;
  (void)modules.refresh(memory);

  for (const auto machine : {Machine::x86_64, Machine::aarch64}) {
    target::TlsResolver resolver(memory, machine, modules.all());
    std::size_t looked_at = 0;
    for (const target::Module& module : modules.all()) {
      if (!module.dynamic || ++looked_at > 16) continue;
      const auto symbol = elf::find_symbol(memory, *module.dynamic, "custom_labels_current_set");
      if (!symbol || !*symbol) continue;
      const auto resolved = resolver.resolve(module, **symbol, "custom_labels_current_set");
      if (resolved)
        (void)target::evaluate(resolved->location, machine, fuzz::base + size / 2, memory);
    }
  }
  return 0;
}
