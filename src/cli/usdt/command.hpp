// vitrine usdt: header, link, the options they share, and the dtrace spelling of both.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/shell/confinement.hpp"
#include "usdt/definition.hpp"
#include "usdt/header.hpp"
#include "usdt/link.hpp"

namespace vitrine::cli {

// The options of every command that reads a provider definition: -s, -C, -D, -I.

struct DefinitionOptions {
  std::string path;
  bool preprocess = false;
  std::vector<std::string> defines, includes;

  void define(CLI::App& app);
  /// Of the command that has them: with -C the user's preprocessor is run.
  [[nodiscard]] Needs needs() const;
  /// Reads the definition, after which nothing is run any more; prints its warnings. Errors: usage
  /// (-D without -C), those of the reader.
  Result<usdt::Definition> read() const;
};

/// --enabled semaphore|return-value|pointer.
void define_enabled(CLI::App& app, usdt::EnabledProtocol& protocol);

// What both spellings of the header step (vitrine usdt header, dtrace -h) do.

/// Writes the header of what was read from `source` to `output` ("-": standard output; empty: the
/// name of `source` with .h, here). Returns an ExitCode, or what went wrong.
Result<int> write_header(const usdt::Definition& definition, usdt::HeaderOptions options,
                         const std::string& source, std::string output);

// What both spellings of the object step (vitrine usdt link, dtrace -G) do.

/// Runs the object step for what was read from `source`; without an output in `options`, that is the
/// name of `source` with .o, here. Returns an ExitCode, or what went wrong.
Result<int> link_objects(const usdt::Definition& definition, usdt::LinkOptions options,
                         const std::string& source, bool verbose);

// The command under the name `dtrace`: for build systems that have the two steps as DTrace spells
// them, `dtrace -h -s shop.d` and `dtrace -G -s shop.d -o shop.o main.o`.

/// Whether argv[0] is called dtrace.
bool is_called_dtrace(const char* argv0);

/// Returns an ExitCode.
int run_as_dtrace(int argc, char** argv);

}  // namespace vitrine::cli
