// Manual pages and help texts, made from the commands themselves.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/command.hpp"

namespace vitrine::cli {

/// A command, and where its options were defined.
struct DefinedCommand {
  Command* command;
  CLI::App* app;
};

/// The part of --help below the options: notes and examples.
std::string help_footer(const Manual& manual);

/// How --help lays out options and commands: in 80 columns.
std::shared_ptr<CLI::FormatterBase> help_formatter();

/// Writes a man(7) page for each of `all`, and one for `vitrine` itself, whose commands are `top`.
/// Errors: failed.
Result<void> write_man_pages(const std::string& directory,
                             const std::vector<std::unique_ptr<Command>>& top,
                             const std::vector<DefinedCommand>& all);

}  // namespace vitrine::cli
