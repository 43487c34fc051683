// The command under the name `dtrace`: for build systems that have the two steps as DTrace spells
// them, `dtrace -h -s shop.d` and `dtrace -G -s shop.d -o shop.o main.o`.
#pragma once

namespace vitrine::cli {

/// Whether argv[0] is called dtrace.
bool is_called_dtrace(const char* argv0);

/// Returns an ExitCode.
int run_as_dtrace(int argc, char** argv);

}  // namespace vitrine::cli
