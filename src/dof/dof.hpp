// A DOF as values, where its functions, sites and semaphores are, and the instructions at its
// sites.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/machine.hpp"

namespace vitrine::dof {

// The content of a DOF, as values: providers, their probes, one record a function that has sites.

enum class Model : std::uint8_t { ilp32 = 1, lp64 = 2 };

/// How the address word of a record becomes an address (docs/formats/dof.md, "Addresses").
enum class Relocation : std::uint8_t {
  none,         ///< it is one
  load_base,    ///< SETX: add the load base
  own_address,  ///< DOFREL: add the address of the word itself
};

struct Stability {
  std::uint8_t name = 1, data = 1, dependency_class = 0;  ///< Private/Private/Unknown
  bool operator==(const Stability&) const = default;
};

struct Stabilities {
  Stability provider, module, function, name, args;
  bool operator==(const Stabilities&) const = default;
};

/// What a probe looks like to its callers and to its observers.
struct Prototype {
  std::vector<std::string> native;         ///< types of what the program passes
  std::vector<std::string> translated;     ///< types of what the observer sees
  std::vector<std::uint8_t> argument_map;  ///< one a translated argument: which native feeds it
  bool operator==(const Prototype&) const = default;
};

/// One (probe, function instance).
struct Record {
  std::string name;       ///< of the probe, with '-'
  std::string function;   ///< as symbol tables spell it
  std::string demangled;  ///< the same as programmers write it; empty: no other name
  Prototype prototype;
  std::vector<std::uint32_t> offsets;          ///< sites, from the function's start
  std::vector<std::uint32_t> enabled_offsets;  ///< is-enabled sites, likewise
  std::uint64_t word = 0;                      ///< dofpr_addr as it is written
  std::uint64_t word_offset = 0;               ///< where that word is, from the DOF's header
  Relocation relocation = Relocation::none;

  [[nodiscard]] const std::string& function_name() const {
    return demangled.empty() ? function : demangled;
  }
};

/// A counter of observers (abi/dof.h, VITRINE_DOF_SECTION_SEMAPHORES); always relative to the word.
struct Semaphore {
  std::string name;  ///< of the probe
  std::uint64_t word = 0;
  std::uint64_t word_offset = 0;  ///< from the DOF's header
};

struct Provider {
  std::string name;
  Stabilities stabilities;
  std::vector<Record> records;
  std::vector<Semaphore> semaphores;
};

/// What of a DOF is not as it should be.
enum class Part : std::uint8_t {
  header,       ///< of one DOF, or of bytes that are none
  placement,    ///< where it is in its file, or whether it is for such a file at all
  sections,     ///< its table of sections, and their sizes
  providers,    ///< providers, and the tables they refer to
  records,      ///< probe records: names, types, sites
  relocations,  ///< of its own kind
  semaphores,
  size,  ///< more than is decoded
};

struct Problem {
  Part part{};
  std::string text;  ///< a sentence without a full stop
};

struct Object {
  Model model = Model::lp64;
  std::uint8_t version = 1;         ///< VITRINE_DOF_VERSION_*
  std::uint64_t offset = 0;         ///< of its header, in the bytes it was read from
  std::uint64_t loadable_size = 0;  ///< bytes
  std::uint64_t file_size = 0;      ///< bytes
  std::vector<Provider> providers;
  std::vector<Problem> problems;  ///< what of it could not be used
};

// What the stabilities of a provider are called (docs/formats/dof.md, "Providers and probes").

/// In the order of their numbers.
inline constexpr std::array<std::string_view, 8> stability_names = {
    "Internal", "Private", "Obsolete", "External", "Unstable", "Evolving", "Stable", "Standard"};
inline constexpr std::array<std::string_view, 6> dependency_class_names = {
    "Unknown", "CPU", "Platform", "Group", "ISA", "Common"};

/// "Evolving/Evolving/Common"; a number without a name is printed as it is.
std::string name(const Stability& stability);

// Where a DOF's functions, sites and semaphores are: the one home of that arithmetic
// (docs/formats/dof.md, "Addresses").

/// Where a DOF is. Both in one address space: the file's own (a load base of 0), or a process's.
struct Placement {
  std::uint64_t header = 0;     ///< the address of its header
  std::uint64_t load_base = 0;  ///< what the loader added to the file's addresses
};

/// An address of the model: ILP32's wrap at 2^32, as the linkers' PC-relative relocations do.
std::uint64_t wrapped(Model model, std::uint64_t address);

/// Where the function of a record begins. Nullopt: the linker left that copy of it out (a COMDAT
/// twin, an archive member, a dead section), which is no error: the weak fallback of its symbol
/// (the DOF's own address) or nothing (0) took its place.
std::optional<std::uint64_t> function_address(const Object& object, const Record& record,
                                              Placement placement);

/// A site of a function: `offset` is one of Record::offsets or enabled_offsets.
std::uint64_t site_address(Model model, std::uint64_t function, std::uint32_t offset);

/// Where a semaphore's counter is; nullopt: the linker left it out.
std::optional<std::uint64_t> semaphore_address(const Object& object, const Semaphore& semaphore,
                                               Placement placement);

// The instructions that stand where a call of a probe stood: what the object step writes, and what
// an observer must find before it attaches anything (docs/formats/dof.md, "Site patterns").

/// What a site is: a fire, or an is-enabled check, whose result the tracer sets in the register of
/// the return value (DOF version 2). A check of version 3 looks as a fire does: its first argument is
/// where the result goes.
///
/// vitrine's of version 2 on x86 need no tracer that writes registers, which few kernels allow: they load
/// the result from an operand of their own instruction, `push $0; pop %eax`. A uprobe on the byte of
/// that 0 is never hit; but as long as it is there the kernel keeps a breakpoint's 0xcc in the byte,
/// and the result is -52. It goes with the last tracer, however that ends.
enum class Use : std::uint8_t { fire, enabled_register };

/// What the pattern replaced: a call, a jump in its place, or nothing: a stub is a function of its
/// own. In a stub and after a jump, the return address is on the stack (x86).
enum class Instruction : std::uint8_t { call, jump, stub };

/// One pattern. `site` is where in `bytes` a uprobe goes.
struct SitePattern {
  Machine machine;
  Use use;
  Instruction instruction;
  bool written;   ///< what we write; else what other implementations wrote
  bool long_nop;  ///< one 5-byte nop: cheaper to probe on kernels that know how, on others not
  std::uint8_t site;
  std::uint8_t length;  ///< of `bytes`; what replaced an instruction is as long as that
  std::array<std::uint8_t, 12> bytes;
  std::uint8_t breakpoint = 0;  ///< where in `bytes` a breakpoint makes the check true; 0: nowhere

  [[nodiscard]] std::span<const std::uint8_t> code() const {
    return std::span(bytes).first(length);
  }
};

/// All patterns, vitrine's first.
std::span<const SitePattern> site_patterns();

/// The pattern to write; none: there is none (aarch64's check takes two instructions: a stub
/// asks it). `long_nop`: where there is such a variant (calls of x86).
std::optional<SitePattern> pattern_to_write(Machine machine, Use use, Instruction instruction,
                                            bool long_nop = false);

/// Code that nothing calls, with a site at its start and a mark after it. Notes of a function that the
/// linker has dropped lead there (docs/formats/object-step.md, "Aliases"). Empty: another machine.
std::vector<std::byte> dropped_code(Machine machine);

/// Which pattern's site is at `site` in `code` (the bytes around it): of several, the longest.
std::optional<SitePattern> pattern_at(std::span<const std::byte> code, std::size_t site,
                                      Machine machine, Use use);

}  // namespace vitrine::dof
