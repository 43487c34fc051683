/* Loads two plugins in turn, at one address as a rule, and runs each for about a millisecond: plugin A has
 * function in_a, plugin B has in_b. While one runs, the thread has its function's name. Arguments: their
 * files, and how often in turn each runs before the other is loaded (once). */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

int main(int count, char** arguments) {
  const long times = count > 3 ? atol(arguments[3]) : 1;
  uintptr_t at[2] = {0, 0};
  for (unsigned long n = 0;; ++n) {
    const int which = (int)(n % 2);
    void* plugin = dlopen(arguments[1 + which], RTLD_NOW);
    if (plugin == NULL) return 1;
    long (*run)(long) = (long (*)(long))dlsym(plugin, which ? "in_b" : "in_a");
    if (run == NULL) return 1;
    at[which] = (uintptr_t)run >> 12; /* the page */
    if (n == 1) {
      puts(at[0] == at[1] ? "ready" : "at two addresses");
      fflush(stdout);
    }
    prctl(PR_SET_NAME, which ? "in_b" : "in_a");
    for (long i = 0; i < times; ++i) run((long)n);
    prctl(PR_SET_NAME, "plugins");
    dlclose(plugin);
  }
}
