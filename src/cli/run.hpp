// The command line, from its words to the command that they name.
#pragma once

namespace vitrine::cli {

/// Parses what main() was given, and runs the command that is named there. Returns an ExitCode.
int run(int argc, char** argv);

}  // namespace vitrine::cli
