// TlsResolver: from a thread-local symbol of a module to its TlsLocation.
//
// What the running code uses is what counts: the words that the dynamic linker put into a module's
// global offset table for the variable, whichever access model the module was compiled with. Only
// where there are none is the place computed (docs/formats/tls.md, "Access models").
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "elf/relocations.hpp"
#include "elf/symbols.hpp"
#include "target/libc.hpp"
#include "target/modules.hpp"
#include "target/process_memory.hpp"
#include "target/tls_location.hpp"

namespace vitrine::target {

/// How a location was found.
enum class TlsEvidence : std::uint8_t {
  descriptor,       ///< TLSDESC words
  general_dynamic,  ///< module id and offset words
  initial_exec,     ///< thread pointer offset word
  executable,       ///< computed from the executable's TLS segment (local exec)
  linker_record,    ///< computed from glibc's link_map
};

struct ResolvedTls {
  TlsLocation location;
  TlsEvidence evidence{};
  WatchedMemory watched;  ///< when any of it changes, resolve again
};

/// Valid for one state of the module list.
class TlsResolver {
 public:
  TlsResolver(Memory& memory, Machine machine, std::span<const Module> modules);

  /// The place of `symbol`, named `name`, that `module` (one of the list) defines. Errors:
  /// malformed (the module's tables or the linker's make no sense), unsupported (a libc we do not
  /// know).
  Result<ResolvedTls> resolve(const Module& module, const elf::Symbol& symbol,
                              std::string_view name);

  /// Whose DTV layout the process has; none for a static program and for a libc we do not know.
  [[nodiscard]] Libc libc() const { return libc_; }
  [[nodiscard]] const std::optional<Glibc>& glibc() const { return glibc_; }

 private:
  using Attempt = Result<std::optional<ResolvedTls>>;

  Attempt by_relocations(const Module& module, const std::vector<elf::Relocation>& relocations);
  Attempt by_descriptor(const Module& module, Address got);
  Attempt by_module_words(Address got);
  Attempt by_offset_word(Address got);
  Attempt by_other_modules(const Module& module, std::string_view name);
  Result<ResolvedTls> by_linker_record(const Module& module, const elf::Symbol& symbol);
  Result<ResolvedTls> in_module(std::uint64_t module_id, std::uint64_t offset,
                                std::optional<std::uint64_t> need_generation);
  bool is_static_entry(Address entry, std::uint64_t argument);
  Result<std::vector<elf::Relocation>> tls_relocations(const Module& module);

  Memory& memory_;
  Machine machine_;
  std::span<const Module> modules_;
  std::optional<Glibc> glibc_;
  Libc libc_ = Libc::none;
};

}  // namespace vitrine::target
