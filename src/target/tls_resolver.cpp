#include "target/tls_resolver.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "elf/relocations.hpp"
#include "target/tls_location.hpp"

namespace vitrine::target {
namespace {

elf::TlsRelocationTypes types_of(Machine machine) {
  return elf::tls_relocation_types(machine == Machine::x86_64 ? EM_X86_64 : EM_AARCH64);
}

struct WordPair {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
};

Libc libc_of(Memory& memory, std::span<const Module> modules, bool has_glibc) {
  if (has_glibc) return Libc::glibc;
  for (const Module& module : modules) {
    if (!module.dynamic) continue;
    if (module.executable) {
      const auto linker = elf::interpreter(memory, module.image);
      if (linker && linker->find("ld-musl") != std::string::npos) return Libc::musl;
    } else if (const auto symbol = elf::find_symbol(memory, *module.dynamic, "__dls3");
               symbol && *symbol) {
      return Libc::musl;
    }
  }
  return Libc::none;
}

}  // namespace

TlsResolver::TlsResolver(Memory& memory, Machine machine, std::span<const Module> modules)
    : memory_(memory),
      machine_(machine),
      modules_(modules),
      glibc_(Glibc::find(memory, modules)),
      libc_(libc_of(memory, modules, glibc_.has_value())) {}

Result<ResolvedTls> TlsResolver::resolve(const Module& module, const elf::Symbol& symbol,
                                         std::string_view name) {
  const auto tls = TRY(elf::tls_segment(module.image));
  if (!tls || symbol.value >= tls->size)
    return fail(ErrorCode::malformed,
                fmt::format("{} is at {:#x} of a thread-local block of {} bytes", name,
                            symbol.value, tls ? tls->size : 0));

  // 1 to 3: the module's own words.
  auto own = TRY(module.dynamic ? elf::tls_relocations(memory_, module.image, *module.dynamic,
                                                       types_of(machine_), symbol)
                                : std::vector<elf::Relocation>());
  if (auto found = TRY(by_relocations(module, own))) return std::move(*found);

  if (module.executable)
    return ResolvedTls{StaticTls{executable_tls_offset(machine_, *tls, symbol.value)},
                       TlsEvidence::executable,
                       {}};
  if (auto found = TRY(by_other_modules(module, name))) return std::move(*found);
  return by_linker_record(module, symbol);
}

Result<std::vector<elf::Relocation>> TlsResolver::tls_relocations(const Module& module) {
  if (!module.dynamic) return std::vector<elf::Relocation>();
  const auto [descriptor, module_id, tp_offset] = types_of(machine_);
  const std::array<std::uint32_t, 3> types{descriptor, module_id, tp_offset};
  return elf::find_relocations(memory_, module.image, *module.dynamic, types);
}

// The location by the first relocation, by order of access model, that has been carried out.
TlsResolver::Attempt TlsResolver::by_relocations(const Module& module,
                                                 const std::vector<elf::Relocation>& relocations) {
  const auto [descriptor, module_id, tp_offset] = types_of(machine_);
  for (const std::uint32_t type : {descriptor, module_id, tp_offset})
    for (const elf::Relocation& relocation : relocations) {
      if (relocation.type != type) continue;
      auto found = type == descriptor  ? by_descriptor(module, relocation.where)
                   : type == module_id ? by_module_words(relocation.where)
                                       : by_offset_word(relocation.where);
      if (!found || *found) return found;
    }
  return std::nullopt;
}

// TLSDESC: {entry, argument}. What the argument means depends on which function the entry is.
TlsResolver::Attempt TlsResolver::by_descriptor(const Module& module, Address got) {
  const auto words = TRY(memory_.read_value<WordPair>(got, "a TLS descriptor"));
  // Not relocated yet, or (glibc before 2.34) still leading to the lazy stub in the module itself:
  // no code has used the variable through it.
  if (words.first == 0 || module.image.holds(words.first, 1)) return std::nullopt;
  if (is_static_entry(words.first, words.second)) {
    ResolvedTls fixed{
        StaticTls{static_cast<std::int64_t>(words.second)}, TlsEvidence::descriptor, {}};
    fixed.watched.add_value(got, words);
    return fixed;
  }

  struct Argument {
    std::uint64_t module_id, offset, generation;
  };
  Argument argument{};
  const std::size_t size = libc_ == Libc::glibc ? sizeof argument : 16;
  TRY(memory_.read_exact(words.second, std::as_writable_bytes(std::span(&argument, 1)).first(size),
                         "the argument of a TLS descriptor"));
  auto found = TRY(in_module(argument.module_id, argument.offset, argument.generation));
  found.evidence = TlsEvidence::descriptor;
  found.watched.add_value(got, words);
  return found;
}

// Whether a descriptor's entry function returns its argument: an offset from the thread pointer,
// the same in all threads.
bool TlsResolver::is_static_entry(Address entry, std::uint64_t argument) {
  std::array<std::uint8_t, 12> code{};
  const std::size_t got = memory_.read_some(entry, std::as_writable_bytes(std::span(code)));
  const auto starts = [&](std::size_t at, std::initializer_list<std::uint8_t> bytes) {
    return at + bytes.size() <= got && std::equal(bytes.begin(), bytes.end(), code.begin() + at);
  };
  if (machine_ == Machine::x86_64) {
    if (got == 0) {  // execute-only: a small negative number is an offset, anything else a pointer
      const auto offset = static_cast<std::int64_t>(argument);
      return offset < 0 && offset > -(std::int64_t{1} << 32);
    }
    const std::size_t skip = starts(0, {0xf3, 0x0f, 0x1e, 0xfa}) ? 4 : 0;  // endbr64
    return starts(skip, {0x48, 0x8b, 0x40, 0x08, 0xc3});                   // mov 8(%rax),%rax; ret
  }
  if (got == 0) return argument > 0 && argument < 64 * 1024;
  const bool marked = starts(0, {0x5f, 0x24, 0x03, 0xd5}) ||  // bti c
                      starts(0, {0x1f, 0x20, 0x03, 0xd5});    // nop
  return starts(marked ? 4 : 0,
                {0x00, 0x04, 0x40, 0xf9, 0xc0, 0x03, 0x5f, 0xd6});  // ldr x0,[x0,#8]; ret
}

// General dynamic: {module id, offset in its block}.
TlsResolver::Attempt TlsResolver::by_module_words(Address got) {
  const auto words = TRY(memory_.read_value<WordPair>(got, "a TLS module id"));
  if (words.first == 0) return std::nullopt;  // not relocated yet
  auto found = TRY(in_module(words.first, words.second, std::nullopt));
  found.evidence = TlsEvidence::general_dynamic;
  found.watched.add_value(got, words);
  return found;
}

TlsResolver::Attempt TlsResolver::by_offset_word(Address got) {
  const auto offset = TRY(memory_.read_value<std::uint64_t>(got, "a TLS offset"));
  if (offset == 0) return std::nullopt;  // no variable is at the thread pointer itself
  ResolvedTls found{StaticTls{static_cast<std::int64_t>(offset)}, TlsEvidence::initial_exec, {}};
  found.watched.add_value(got, offset);
  return found;
}

// Byte `offset` of the block of the module with this id. Where glibc has reserved a block at a
// fixed place, the DTV may not show it (a thread that was there before dlopen), so the DTV comes
// second.
Result<ResolvedTls> TlsResolver::in_module(std::uint64_t module_id, std::uint64_t offset,
                                           std::optional<std::uint64_t> need_generation) {
  if (libc_ == Libc::musl) return ResolvedTls{DynamicTls{Libc::musl, module_id, offset, 0}, {}, {}};
  if (!glibc_)
    return fail(
        ErrorCode::unsupported,
        fmt::format("TLS module {} of a C library that is neither glibc nor musl", module_id));
  for (const Module& module : modules_) {
    if (module.link_map == 0 || module.image.find(PT_TLS) == nullptr) continue;
    const auto tls = glibc_->tls_of(memory_, module);
    if (!tls || tls->module_id != module_id) continue;
    if (tls->static_offset)
      return ResolvedTls{
          StaticTls{library_tls_offset(machine_, *tls->static_offset, offset)}, {}, {}};
    const Address place = glibc_->tls_offset_address(module);
    const auto reserved = TRY(memory_.read_value<std::uint64_t>(place, "l_tls_offset"));
    const auto slot = TRY(glibc_->slot(memory_, module_id));
    if (slot.link_map != module.link_map)
      return fail(ErrorCode::malformed,
                  fmt::format("TLS module {} is {} to its link_map but not to the dynamic linker",
                              module_id, module.path));
    const std::uint64_t generation = need_generation.value_or(slot.generation);
    ResolvedTls found{DynamicTls{Libc::glibc, module_id, offset, generation}, {}, {}};
    found.watched.add_value(place, reserved);  // a block may yet be reserved
    // The same library loaded again gets the same id, and maybe the same place in memory.
    found.watched.add_value(slot.generation_address, slot.generation);
    return found;
  }
  return fail(ErrorCode::malformed, fmt::format("no module has the TLS module id {}", module_id));
}

// A definition that its own module does not use may be used by others, through undefined symbols.
TlsResolver::Attempt TlsResolver::by_other_modules(const Module& module, std::string_view name) {
  for (const Module& other : modules_) {
    if (&other == &module || other.link_namespace != module.link_namespace || !other.dynamic)
      continue;
    auto relocations = tls_relocations(other);
    if (!relocations) continue;  // a broken module is no reason to give up the others
    std::erase_if(*relocations, [&](const elf::Relocation& relocation) {
      return relocation.symbol == 0 ||
             !elf::has_name(memory_, *other.dynamic, relocation.symbol, name);
    });
    auto found = by_relocations(other, *relocations);
    if (!found || *found) return found;
  }
  return std::nullopt;
}

Result<ResolvedTls> TlsResolver::by_linker_record(const Module& module, const elf::Symbol& symbol) {
  if (!glibc_)
    return fail(
        ErrorCode::unsupported,
        fmt::format(
            "{} defines the variable, but no module refers to it and the C library provides no "
            "location",
            module.path));
  const auto tls = TRY(glibc_->tls_of(memory_, module));
  auto found = in_module(tls.module_id, symbol.value, std::nullopt);
  if (found) found->evidence = TlsEvidence::linker_record;
  return found;
}

}  // namespace vitrine::target
