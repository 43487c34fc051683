// The words of a command line, as CLI11 is to take them apart.
#pragma once

#include <string>
#include <vector>

namespace vitrine::cli {

/// `--watch` may stand alone, and CLI11 cannot tell its value from a PID that follows: it is given
/// one. What follows `--exec … --` is one command line and not ours to parse: each word becomes a
/// value of the hidden option --exec-word. `help COMMAND` is `COMMAND --help`.
std::vector<std::string> words_of(int argc, const char* const* argv);

}  // namespace vitrine::cli
