// The symbols, words and thread-local variables that operands name, in an ELF file.
#include "elf/file.hpp"
#include "input.hpp"
#include "probe/file_symbols.hpp"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::RegionMemory memory(0, fuzz::bytes(data, size));
  const auto file = elf::read_file(memory);
  if (!file) return 0;
  probe::FileSymbols symbols(memory, *file);
  symbols.add_debug_file(memory, *file);
  for (const Address site : {Address{0x1000}, Address{0x1139}, Address{0x401000}}) {
    auto at = symbols.at(site);
    for (const char* name : {"main", "variable", "local", "_GLOBAL_OFFSET_TABLE_", "none"}) {
      (void)at.address(name);
      (void)at.got_slot(name);
      (void)at.thread_offset(name);
    }
  }
  return 0;
}
