// Probe: what an application can fire, whatever format declared it; and patterns that select
// probes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/machine.hpp"
#include "base/memory.hpp"

namespace vitrine::probe {

/// Where a probe was announced: a stapsdt note, or a DTrace object (DOF). A function announces
/// nothing: it is a probe because the user asks for it (function_pattern.hpp).
enum class Kind : std::uint8_t { sdt, dof, function };

/// What an argument is, beyond its size.
enum class ValueKind : std::uint8_t {
  integer,
  floating,
  boolean,
  pointer,
  c_string,     ///< the argument is the address of NUL-terminated bytes
  string_view,  ///< this argument is the address, `length_argument` the number of bytes
  enumeration,
  bytes,  ///< as string_view, but not text
};

struct Enumerator {
  std::int64_t value = 0;
  std::string name;
};

/// One argument as its probe describes it: from our typed note, or a DOF prototype.
struct ArgumentType {
  std::string name;  ///< empty: not known
  std::string type;  ///< as a programmer writes it: "int", "const char *", "Colour"
  ValueKind kind = ValueKind::integer;
  std::uint32_t argument = 0;                    ///< index in the site's argument list
  std::optional<std::uint32_t> length_argument;  ///< string_view, bytes
  std::vector<Enumerator> enumerators;
};

/// What a site is for: to fire, or to check whether its probe is observed (is-enabled), and then how
/// the check gets its result (docs/formats/dof.md, "Site patterns"). Semaphores are no sites: see
/// Site::semaphore.
enum class SiteUse : std::uint8_t {
  fire,
  enabled_operand,   ///< a uprobe that is never hit: its breakpoint makes the check true
  enabled_register,  ///< the tracer writes the register of the return value (DOF version 2)
  enabled_pointer,   ///< the tracer writes where argument 0 points (DOF version 3)
};

/// One address at which a probe can fire, or checks whether it is to.
struct Site {
  Address address = 0;                       ///< adjusted, in the file's own address space
  std::optional<std::uint64_t> file_offset;  ///< where a uprobe goes; none: see `problems`
  SiteUse use = SiteUse::fire;
  bool verified = false;  ///< its instruction is one that makers of probes write
  bool is_stub = false;  ///< no call: the function that calls lead to which were not replaced (DOF)
  Address semaphore = 0;                          ///< 0: none
  std::optional<std::uint64_t> semaphore_offset;  ///< in the file; even, in a writable segment
  /// Where the kernel counts instead, until the program has started: where an earlier segment maps the
  /// semaphore's page of the file (page_mapped_twice()). In the file's own address space.
  std::optional<Address> counted_first;
  std::vector<std::string> arguments;  ///< the note's own strings, one an argument
  std::vector<ArgumentType> types;     ///< empty: not described
  std::string function;                ///< around it, as symbol tables spell it; empty: not known
  std::string demangled;               ///< the same as programmers write it; empty: no other name
  std::vector<std::string> problems;   ///< what is wrong with it; each a sentence
  bool at_return = false;              ///< of a function: it fires when that returns
  bool is_exit = false;                ///< an instruction by which a function is left
  std::string risk;                    ///< what may happen to the program if it is attached to

  [[nodiscard]] const std::string& function_name() const {
    return demangled.empty() ? function : demangled;
  }
};

struct Probe {
  Kind kind = Kind::sdt;
  std::string provider;
  std::string name;
  std::vector<Site> sites;
  std::vector<Site> enabled_sites;      ///< is-enabled sites: no fire comes from them
  std::vector<std::string> patterns{};  ///< of a function: those that it was found by
};

// Pattern: which probes a user means.

/// "provider:name", each a glob of the shell (`*`, `?`, `[…]`). Without a colon: a name, of any
/// provider. Functions are selected by the patterns that they were found by (function_pattern.hpp).
/// A name as it is listed selects its probe, too, whatever characters it has: `shop:items[0]`, or a provider with
/// a colon. The provider of a DOF is also called by its instance in one process, as DTrace does: "shop4242".
class Pattern {
 public:
  explicit Pattern(std::string_view text);

  /// `process`: whose probe it is, where it is one process's; 0: any.
  [[nodiscard]] bool matches(const Probe& probe, int process = 0) const;

 private:
  std::string text_;  ///< all of it
  std::string provider_;
  std::string name_;
  std::string function_;  ///< all of it, where it is a pattern of functions
};

/// The one spelling of a name, or of a pattern of names: `query-start` for query__start, which is
/// what a definition writes for it, and what notes of other tools keep.
std::string canonical_name(std::string_view name);

/// Whether any of the patterns matches, or there are none.
bool selected(const Probe& probe, std::span<const Pattern> patterns, int process = 0);

/// The name of a DOF's provider in a process: "shop4242".
std::string instance_name(const Probe& probe, int process);

}  // namespace vitrine::probe
