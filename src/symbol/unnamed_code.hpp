// Names of code that no symbol is about: stubs of procedure linkage tables, by the symbol that they
// jump to ("malloc@plt"), and functions of stripped files, by where their call frame information
// begins ("+0x11e0").
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/memory.hpp"
#include "elf/file.hpp"
#include "unwind/cfi.hpp"

namespace vitrine::symbol {

class UnnamedCode {
 public:
  UnnamedCode() = default;
  /// x86-64 and aarch64, little-endian; of other files it knows nothing. Both must outlive this.
  UnnamedCode(Memory& file, const elf::File& elf);
  UnnamedCode(const UnnamedCode&) = delete;
  UnnamedCode& operator=(const UnnamedCode&) = delete;

  struct Found {
    std::string name;
    Address start = 0;
  };
  /// All stubs are read once an address of one is asked for.
  [[nodiscard]] std::optional<Found> find_stub(Address address);
  /// `+0x` and the function's own address in the file, hexadecimal. Nothing where no call frame information is about
  /// the address: what begins before it may have ended.
  [[nodiscard]] std::optional<Found> find_function(Address address);

 private:
  using Slots = std::map<Address, std::string>;  // what the dynamic linker fills in, by address
  void read_stubs();

  Memory* file_ = nullptr;
  const elf::File* elf_ = nullptr;
  struct Stub {
    Address end = 0;
    std::string name;
  };
  std::map<Address, Stub> stubs_;
  bool has_read_stubs_ = false;
  std::optional<WindowMemory> windows_;  // of the file, for what follows
  std::optional<unwind::CfiSection> frames_;
  struct Code {
    Address start = 0, end = 0;
  };
  std::vector<Code> code_;           // sections of it, without stubs
  std::vector<Code> stub_sections_;  // the others
};

}  // namespace vitrine::symbol
