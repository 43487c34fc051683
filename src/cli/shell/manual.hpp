// What commands take and may do, as help, manual pages, and tables for documents.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/shell/run.hpp"
#include "observe/doctor.hpp"

namespace vitrine::cli {

// What the commands take: as a table for documents, for a manual page, and for this user.

/// The table of docs/for-operators.md.
std::string uses_markdown(const std::vector<std::unique_ptr<Command>>& commands);

/// A section of a manual page; empty for a command that takes nothing.
std::string uses_roff(const std::vector<Use>& uses);

/// Which of them `held` suffices for, a finding a use. Where there is no uprobe_multi, traces take
/// CAP_SYS_ADMIN, too.
std::vector<observe::Finding> uses_for(const std::vector<std::unique_ptr<Command>>& commands,
                                       sandbox::Capabilities held, bool has_uprobe_multi);

/// The one line that would enable the rest; empty when there is none.
std::string enabling_line(const std::vector<std::unique_ptr<Command>>& commands,
                          sandbox::Capabilities held, bool has_uprobe_multi);

// Manual pages and help texts, made from the commands themselves.

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
