/* A program written for systemtap's <sys/sdt.h>: compiled with that header and with ours, it must
 * offer the same probes. Uses what that header offers, and nothing else. */
#define SDT_USE_VARIADIC
#ifdef WITH_SEMAPHORES
#define _SDT_HAS_SEMAPHORES 1
#endif
#include <sys/sdt.h>

#ifdef __cplusplus
#include <cstddef>
extern "C" {
#else
#include <stddef.h>
#endif
int in_assembler(int n);
#ifdef WITH_SEMAPHORES
#define SEMAPHORE(name) \
  __extension__ unsigned short name##_semaphore __attribute__((unused, section(".probes")))
SEMAPHORE(old_none);
SEMAPHORE(old_variadic_none);
SEMAPHORE(old_variadic);
SEMAPHORE(old_kinds);
SEMAPHORE(old_wide);
SEMAPHORE(old_addresses);
SEMAPHORE(old_twelve);
SEMAPHORE(old_literal);
SEMAPHORE(old_operands);
SEMAPHORE(old_no_operands);
#define EACH(n)            \
  SEMAPHORE(old_stap_##n); \
  SEMAPHORE(old_dtrace_##n)
EACH(1);
EACH(2);
EACH(3);
EACH(4);
EACH(5);
EACH(6);
EACH(7);
EACH(8);
EACH(9);
EACH(10);
EACH(11);
EACH(12);
#endif
#ifdef __cplusplus
}
#endif

/* What no register holds. */
struct wide {
  long words[8];
};

static void each(int n) {
  long double real = n;
  struct wide structure = {{n, 2, 3, 4, 5, 6, 7, 8}};
  STAP_PROBE2(old, wide, real, structure);

  STAP_PROBE1(old, stap_1, n);
  STAP_PROBE2(old, stap_2, n, 2);
  STAP_PROBE3(old, stap_3, n, 2, 3);
  STAP_PROBE4(old, stap_4, n, 2, 3, 4);
  STAP_PROBE5(old, stap_5, n, 2, 3, 4, 5);
  STAP_PROBE6(old, stap_6, n, 2, 3, 4, 5, 6);
  STAP_PROBE7(old, stap_7, n, 2, 3, 4, 5, 6, 7);
  STAP_PROBE8(old, stap_8, n, 2, 3, 4, 5, 6, 7, 8);
  STAP_PROBE9(old, stap_9, n, 2, 3, 4, 5, 6, 7, 8, 9);
  STAP_PROBE10(old, stap_10, n, 2, 3, 4, 5, 6, 7, 8, 9, 10);
  STAP_PROBE11(old, stap_11, n, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
  STAP_PROBE12(old, stap_12, n, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
  DTRACE_PROBE1(old, dtrace_1, n);
  DTRACE_PROBE2(old, dtrace_2, n, 2);
  DTRACE_PROBE3(old, dtrace_3, n, 2, 3);
  DTRACE_PROBE4(old, dtrace_4, n, 2, 3, 4);
  DTRACE_PROBE5(old, dtrace_5, n, 2, 3, 4, 5);
  DTRACE_PROBE6(old, dtrace_6, n, 2, 3, 4, 5, 6);
  DTRACE_PROBE7(old, dtrace_7, n, 2, 3, 4, 5, 6, 7);
  DTRACE_PROBE8(old, dtrace_8, n, 2, 3, 4, 5, 6, 7, 8);
  DTRACE_PROBE9(old, dtrace_9, n, 2, 3, 4, 5, 6, 7, 8, 9);
  DTRACE_PROBE10(old, dtrace_10, n, 2, 3, 4, 5, 6, 7, 8, 9, 10);
  DTRACE_PROBE11(old, dtrace_11, n, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
  DTRACE_PROBE12(old, dtrace_12, n, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
}

int main(int argc, char** argv) {
  char array[4] = "abc";
  size_t size = (size_t)argc;
  const volatile short watched = 3;
  STAP_PROBE(old, none);
  DTRACE_PROBE(old, none);
  each(argc);
  STAP_PROBE8(old, kinds, (char)argc, (unsigned char)argc, (short)argc, size, (long long)argc,
              argc * 0.5f, argc * 0.5, watched);
  STAP_PROBE5(old, addresses, argv, array, argv[0], argc == 1, (void*)0);
  STAP_PROBEV(old, variadic_none);
  STAP_PROBEV(old, variadic, argc, argv, array);
  DTRACE_PROBE12(old, twelve, argc, argc + 1, argc + 2, argc + 3, argc + 4, argc + 5, argc + 6,
                 argc + 7, argc + 8, argc + 9, argc + 10, argc + 11);
  if (argc < 0)
    STAP_PROBE1(old, none, argc);
  else
    STAP_PROBE(old, none);
#ifndef __cplusplus /* systemtap's header has these in C alone */
  /* To clang-format these are operators. */
  /* clang-format off */
  __asm__ __volatile__("nop\n" STAP_PROBE_ASM(old, literal, -4@%edi 8@(%rsi)) "nop");
  /* clang-format on */
  __asm__ __volatile__("nop\n" STAP_PROBE_ASM(old, operands, STAP_PROBE_ASM_TEMPLATE(3)) "nop"
                       :
                       : STAP_PROBE_ASM_OPERANDS(3, argc, argv, size));
  __asm__ __volatile__(STAP_PROBE_ASM(old, no_operands, STAP_PROBE_ASM_TEMPLATE(0))
                       :
                       : STAP_PROBE_ASM_OPERANDS(0));
#endif
  return in_assembler(argc) - argc;
}
