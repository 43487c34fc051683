/* What the hostile targets have in common: hostile_target NAME plays the trick of that name. */
#ifndef VITRINE_TESTS_HOSTILE_TRICK_H
#define VITRINE_TESTS_HOSTILE_TRICK_H

#include <stddef.h>
#include <stdint.h>

struct trick {
  const char* name; /* null ends a table */
  /* Sets everything up and returns; main then counts on. Or calls ready() and count() itself. */
  void (*play)(void);
};

extern const struct trick label_tricks[], racing_tricks[], context_tricks[], linker_tricks[],
    stack_tricks[], code_tricks[], thread_tricks[], process_tricks[], file_tricks[], probe_tricks[],
    held_tricks[], lying_tricks[], forged_tricks[], mapping_tricks[], assumption_tricks[];

enum { page = 4096 };

/* Labels, as readers find them (src/abi/custom_labels.hpp, src/abi/thread_context.hpp). */
struct string {
  uint64_t size;
  const void* data;
};
struct label {
  struct string key, value;
};
struct set {
  struct label* labels;
  uint64_t count, capacity;
};
extern __thread void* volatile custom_labels_current_set;
extern __thread void* volatile otel_thread_ctx_v1;

struct string text(const char* characters);
struct set* set_of(struct label* labels, uint64_t count);
struct set* set_of_one(struct string key, struct string value);

/* "ready PID": who looks may look now, at that process. */
void ready_as(int pid);
void ready(void);
/* That the target still runs. Seen from outside; kept across exec. */
void count(void);
/* Signals handled, and those sent; the sender rests when the runner says so. */
void count_signal(void);
void count_sent(void);
void wait_while_asked_to_rest(void);
_Noreturn void count_on(void);
/* This machine cannot play the trick. */
_Noreturn void cannot(const char* why);
void must(int holds, const char* what);

void in_thread(void (*run)(void*), void* argument);
void rest_us(long microseconds);

char* pages(size_t count, int protection);
/* `count` readable pages with an unmapped one behind them; the end of the readable ones. */
char* edge(size_t count);
void* at_edge(const void* bytes, size_t size);
/* Pages that never come: whoever touches one waits for ever, or until it is killed. */
char* pages_that_never_come(size_t count);
/* The same, and the descriptor by which they could. */
char* pages_on_demand(size_t count, int* descriptor);
/* Memory of the kernel's that this process can read and others cannot; null: none. */
void* device_page(void);

/* A process context (src/abi/process_context.hpp). */
struct context {
  char signature[8];
  uint32_t version;
  volatile uint32_t size;
  volatile uint64_t stamp;
  volatile uint64_t payload;
};
struct context* map_context(void);
void fill_context(struct context* context, const void* payload, size_t size);
/* Protobuf: `tag` with `size` bytes after what is in `into`; returns the end. */
unsigned char* put_bytes(unsigned char* into, unsigned tag, const void* bytes, size_t size);

#endif
