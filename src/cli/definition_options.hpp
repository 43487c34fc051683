// The options of every command that reads a provider definition: -s, -C, -D, -I.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/needs.hpp"
#include "usdt/definition.hpp"
#include "usdt/header.hpp"

namespace vitrine::cli {

struct DefinitionOptions {
  std::string path;
  bool preprocess = false;
  std::vector<std::string> defines, includes;

  void define(CLI::App& app);
  /// Of the command that has them: with -C the user's preprocessor is run.
  [[nodiscard]] Needs needs() const;
  /// Reads the definition, after which nothing is run any more; prints its warnings. Errors: usage (-D without -C), those of the reader.
  Result<usdt::Definition> read() const;
};

/// --enabled semaphore|return-value|pointer.
void define_enabled(CLI::App& app, usdt::EnabledProtocol& protocol);

}  // namespace vitrine::cli
