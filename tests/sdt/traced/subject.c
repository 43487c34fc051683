/* Fires a probe while its red zone is full, itself and in a forked child, once somebody traces it. Says
 * what became of both. FIVE_BYTES: with the nop that our header never uses. */
#define _SDT_HAS_SEMAPHORES 1
#include <stdio.h>
#include <sys/sdt.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef FIVE_BYTES
#undef VITRINE_DETAIL_ASM_NOP
#define VITRINE_DETAIL_ASM_NOP VITRINE_DETAIL_ASM(990 :.byte 0x0f, 0x1f, 0x44, 0, 0)
#endif

enum { FIRES = 1000 };
volatile unsigned short traced_fire_semaphore __attribute__((section(".probes")));

#define EACH_WORD(m) \
  m(8) m(16) m(24) m(32) m(40) m(48) m(56) m(64) m(72) m(80) m(88) m(96) m(104) m(112) m(120) m(128)
#define FILL(offset) "movq %[pattern], -" #offset "(%%rsp)\n"
#define COMPARE(offset) \
  "cmpq %[pattern], -" #offset "(%%rsp)\nsetne %b[differs]\norl %[differs], %[lost]\n"

/* Built with -mno-red-zone: it is this function's alone. */
static __attribute__((noinline)) int fire(long pattern) {
  int lost = 0, differs = 0;
  __asm__ __volatile__(EACH_WORD(FILL) STAP_PROBE_ASM(traced, fire, STAP_PROBE_ASM_TEMPLATE(1))
                           EACH_WORD(COMPARE)
                       : [lost] "+&q"(lost), [differs] "+&q"(differs)
                       : [pattern] "r"(pattern), STAP_PROBE_ASM_OPERANDS(1, pattern)
                       : "cc", "memory");
  return lost;
}

static int fires(void) {
  int lost = 0;
  for (long i = 0; i < FIRES; ++i) lost |= fire(0x1234567812345678 + i);
  return lost;
}

int main(void) {
  const struct timespec nap = {0, 1000000};
  for (int naps = 0; traced_fire_semaphore == 0; ++naps) {
    if (naps == 20000) return 9;
    nanosleep(&nap, NULL);
  }
  printf("red zone %s\n", fires() ? "lost" : "kept");
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) _exit(fires());
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status))
    printf("child killed by signal %d\n", WTERMSIG(status));
  else
    printf("child's red zone %s\n", WEXITSTATUS(status) ? "lost" : "kept");
  return 0;
}
