/* The command of a release that needs nothing installed: starts the program beside it, by the loader and the
 * libraries beside it, whatever the machine has of its own. Linked statically.
 *
 *   bin/vitrine                      this
 *   lib/vitrine/vitrine              the loader: called so, as the kernel names the process by that file
 *   lib/vitrine/program              the command
 *   lib/vitrine/lib*.so*             what both need, and libcurl, which the command loads when it sends
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failed(const char* what) {
  fprintf(stderr,
          "vitrine: %s: %s\n  keep bin/ and lib/ of the release together, and /proc mounted\n",
          what, strerror(errno));
  return 1;
}

int main(int argc, char** argv) {
  enum { fixed = 6 }; /* loader --library-path PATH --argv0 NAME program */
  static char here[PATH_MAX], libraries[PATH_MAX + 32], loader[PATH_MAX + 64],
      program[PATH_MAX + 64];
  const ssize_t length = readlink("/proc/self/exe", here, sizeof here - 1);
  if (length <= 0) return failed("/proc/self/exe");
  here[length] = '\0';
  for (int up = 0; up < 2; ++up) { /* …/bin/vitrine */
    char* const slash = strrchr(here, '/');
    if (slash == NULL) return failed(here);
    *slash = '\0';
  }
  snprintf(libraries, sizeof libraries, "%s/lib/vitrine", here);
  snprintf(loader, sizeof loader, "%s/vitrine", libraries);
  snprintf(program, sizeof program, "%s/program", libraries);

  char** const words = calloc((size_t)argc + fixed + 1, sizeof *words);
  if (words == NULL) return failed("memory");
  char* const begin[fixed] = {
      loader, "--library-path", libraries, "--argv0", argc > 0 ? argv[0] : "vitrine", program};
  memcpy(words, begin, sizeof begin);
  for (int i = 1; i < argc; ++i) words[fixed + i - 1] = argv[i];
  execv(loader, words);
  return failed(loader);
}
