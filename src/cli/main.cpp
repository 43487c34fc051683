// vitrine: what processes publish, read from outside.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include "base/per_thread.hpp"
#include "cli/output/live.hpp"
#include "cli/output/text.hpp"
#include "cli/shell/report.hpp"
#include "cli/shell/run.hpp"
#include "cli/usdt/command.hpp"

namespace {

/// What the caller may have left unusual: an ignored SIGCHLD, with which the status of a child is
/// lost, a limit of file sizes (ulimit -f), at which a write must fail like one to a full disk, and closed
/// standard streams, whose numbers the next files to be opened would get.
void reset_inherited() {
  std::signal(SIGCHLD, SIG_DFL);
  std::signal(SIGXFSZ, SIG_IGN);
  for (int fd = 0; fd < 3; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // Read-only as standard output: a write to it fails, as to one that is closed.
    (void)::open("/dev/null", fd == 1 ? O_RDONLY : O_RDWR);
  }
}

constexpr const char* out_of_memory =
    "vitrine: out of memory\n  limit what is read, for example to one process\n";

/// Where an exception may not go on: destructors of a JSON library allocate. What is left to be
/// done, the kernel does at the end of the process.
[[noreturn]] void end_without_memory() {
  if (const auto failure = std::current_exception()) {
    try {
      std::rethrow_exception(failure);
    } catch (const std::bad_alloc&) {
      (void)!::write(STDERR_FILENO, out_of_memory, std::strlen(out_of_memory));
      ::_exit(vitrine::cli::exit_failed);
    } catch (...) {  // a defect of vitrine: the core shows where
    }
  }
  std::abort();
}

/// Ends the process when its work is done. What is left to be done at exit is the end of child
/// processes; finalisers of ten libraries would take a tenth of the time of a short command.
int ended(int status) {
#ifndef VITRINE_SANITIZED  // the leak checker runs at exit
  vitrine::end_objects_of_this_thread();
  std::fflush(nullptr);
  ::_exit(status);
#endif
  return status;
}

}  // namespace

int main(int argc, char** argv) try {
  std::set_terminate(end_without_memory);
  reset_inherited();
  if (argc > 0 && vitrine::cli::is_called_dtrace(argv[0]))
    return ended(vitrine::cli::finish_output(vitrine::cli::run_as_dtrace(argc, argv)));
  return ended(vitrine::cli::finish_output(vitrine::cli::run(argc, argv)));
} catch (const std::bad_alloc&) {
  std::fputs(out_of_memory, stderr);
  return vitrine::cli::exit_failed;
} catch (const std::exception& failure) {  // vitrine's errors are values
  std::fprintf(stderr, "vitrine: %s\n", vitrine::cli::printable(failure.what()).c_str());
  return vitrine::cli::exit_failed;
}
