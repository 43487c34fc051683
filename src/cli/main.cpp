// vitrine: what processes put on display, read from outside.
#include <cstdio>
#include <exception>
#include <new>

#include "cli/output/text.hpp"
#include "cli/shell/report.hpp"
#include "cli/shell/run.hpp"
#include "cli/usdt/command.hpp"

int main(int argc, char** argv) try {
  if (argc > 0 && vitrine::cli::is_called_dtrace(argv[0]))
    return vitrine::cli::run_as_dtrace(argc, argv);
  return vitrine::cli::run(argc, argv);
} catch (const std::bad_alloc&) {
  std::fputs("vitrine: out of memory\n  limit what is read, for example to one process\n", stderr);
  return vitrine::cli::exit_failed;
} catch (const std::exception& failure) {  // our own errors are values
  std::fprintf(stderr, "vitrine: %s\n", vitrine::cli::printable(failure.what()).c_str());
  return vitrine::cli::exit_failed;
}
