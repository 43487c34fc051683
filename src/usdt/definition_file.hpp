// Reads the file of a definition, through the C preprocessor where asked.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "usdt/definition.hpp"

namespace vitrine::usdt {

struct DefinitionFile {
  std::string path;
  bool preprocess = false;             ///< run the C preprocessor first
  std::vector<std::string> arguments;  ///< for it: "-DDEBUG=1", "-Iinclude"
  std::string preprocessor = "cpp";    ///< searched in PATH
};

/// Errors: not_found, not_permitted, failed (the preprocessor, which says why on standard error),
/// and those of parse().
Result<Definition> read_definition(const DefinitionFile& file);

/// "shop": what files made of `path` are called before their suffix.
std::string stem(const std::string& path);

}  // namespace vitrine::usdt
