// Choices: the values of an option that takes one of some words, as its placeholder names them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace vitrine::cli {

/// Of "snapshot|ebpf|ptrace", or "pprof|otlp [pprof]"; empty: it takes something else.
std::vector<std::string> choices_of(std::string_view placeholder);

}  // namespace vitrine::cli
