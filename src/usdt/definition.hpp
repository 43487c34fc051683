// What a provider definition file (`.d`) declares, as values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dof/dof.hpp"

namespace vitrine::usdt {

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

}  // namespace vitrine::usdt
