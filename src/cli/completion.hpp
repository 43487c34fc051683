// Completions for shells, made from the commands themselves.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace vitrine::cli {

/// The script for `shell` (bash, zsh, fish) that completes what `app` defines. Nothing: no such
/// shell.
std::optional<std::string> completion_script(std::string_view shell, const CLI::App& app);

}  // namespace vitrine::cli
