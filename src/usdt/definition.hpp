// What a provider definition file (`.d`) declares, as values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dof/dof.hpp"

namespace vitrine::usdt {

struct Parameter {
  std::string type;         ///< normalised: "const char *", "struct foo *", "int"
  std::string name;         ///< empty: not named
  std::string declaration;  ///< as C would declare it with the name `%`: "int (*%)(void)"
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
