// Wrong usage: the values that options take, and the errors that name the nearest.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace vitrine::cli {

// Choices: the values of an option that takes one of some words, as its placeholder names them.

/// Of "snapshot|ebpf|ptrace", or "pprof|otlp [pprof]"; empty: it takes something else.
std::vector<std::string> choices_of(std::string_view placeholder);

// Wrong usage, told in one way: what is wrong, what was meant, and where to read on.

/// Looks for what `app` does not take at all: commands, options and values of enumerations that there
/// are not, and options without their value. CLI11 would take what follows a mistyped option for
/// something else, and complain about that. Errors: usage.
Result<void> check_words(const CLI::App& app, std::span<const std::string> words);

/// What CLI11 found wrong, of what `app` and the commands in it define.
Error usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace vitrine::cli
