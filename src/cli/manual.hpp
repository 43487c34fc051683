// Manual pages and help texts, made from the commands themselves.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.hpp"

namespace vitrine::cli {

/// "usdt-header": what `vitrine --man` and the page of a command are called by.
std::string page_name(const Manual& manual);

/// The part of --help below the options: notes and examples.
std::string help_footer(const Manual& manual);

/// How --help lays out a command's options.
std::shared_ptr<CLI::FormatterBase> help_formatter();

/// A man(7) page for one command. `app` is where its options were defined.
std::string man_page(const Command& command, const CLI::App& app);

/// The man(7) page of `vitrine` itself.
std::string man_page(const std::vector<std::unique_ptr<Command>>& commands);

}  // namespace vitrine::cli
