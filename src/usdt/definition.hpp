// The names that tie a definition, its header and its objects together
// (docs/formats/object-step.md, "Names").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "dof/dof.hpp"

namespace vitrine::usdt {

// What a provider definition file (`.d`) declares, as values.

struct Parameter {
  std::string type;  ///< what observers see, normalised: "const char *", "struct foo *", "int"
  std::string name;  ///< empty: not named
  /// What the header's extern takes: a pointer is one to const, since a probe writes nothing through
  /// its arguments and callers have literals; "string" of D is "const char *".
  std::string c_type;
};

struct Probe {
  std::string name;        ///< with '-': "request-start"
  std::string identifier;  ///< as the file spells it: "request__start"
  std::vector<Parameter> parameters;
  dof::Prototype prototype;
  std::uint32_t line = 0;  ///< in the file
};

struct Provider {
  std::string name;
  dof::Stabilities stabilities;
  std::vector<Probe> probes;  ///< in the file's order
  std::uint32_t line = 0;
};

/// A whole file.
struct Definition {
  std::vector<Provider> providers;  ///< in the file's order
  std::vector<std::string> warnings;
};

std::string probe_symbol(const Provider& provider, const Probe& probe);  ///< __dtrace_p___n
std::string enabled_symbol(const Provider& provider,
                           const Probe& probe);  ///< __dtraceenabled_p___n
std::string semaphore_symbol(const Provider& provider,
                             const Probe& probe);                      ///< __dtracesemaphore_p___n
std::string macro_name(const Provider& provider, const Probe& probe);  ///< P_N

/// What observers call a probe that the file spells `identifier`: each "__", from the left, is '-'.
std::string probe_name(std::string_view identifier);

// Reads the file of a definition, through the C preprocessor where asked.

struct DefinitionFile {
  std::string path;
  bool preprocess = false;             ///< run the C preprocessor first
  std::vector<std::string> arguments;  ///< for it: "-DDEBUG=1", "-Iinclude"
  std::string preprocessor = "cpp";    ///< searched in PATH
};

/// Errors: not_found, not_permitted, failed (the preprocessor, which prints why on standard error),
/// and those of parse().
Result<Definition> read_definition(const DefinitionFile& file);

/// "shop": what files made of `path` are called before their suffix.
std::string stem(const std::string& path);

}  // namespace vitrine::usdt
