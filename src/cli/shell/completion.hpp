// Completions for shells, made from the commands themselves.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace vitrine::cli {

/// The script for `shell`, bash, zsh or fish, that completes what `app` defines.
std::string completion_script(std::string_view shell, const CLI::App& app);

}  // namespace vitrine::cli
