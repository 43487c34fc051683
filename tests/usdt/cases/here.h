// A label right behind the instructions of a probe.
#ifdef NO_LABELS
#define HERE(name) ((void)0)
#else
#define HERE(name) __asm__ volatile("here_" #name "_%=:" : :)
#endif
