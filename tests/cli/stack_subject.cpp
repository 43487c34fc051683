// A known chain of calls to a probe, half of it in a library (AS_LIBRARY). Each line of input runs it.
#include <vitrine/sdt.h>

#include <cstdio>

#define A_FRAME __attribute__((noinline))
#define NOT_THE_LAST asm volatile("" ::: "memory")  // or the call becomes a jump

struct Order {
  int id;
};

extern "C" void through_library(void (*back)(const Order&), const Order& order);

#ifdef AS_LIBRARY
namespace {
A_FRAME void inside(void (*back)(const Order&), const Order& order) {
  back(order);
  NOT_THE_LAST;
}
}  // namespace
extern "C" void through_library(void (*back)(const Order&), const Order& order) {
  inside(back, order);
  NOT_THE_LAST;
}
#else
namespace shop {
A_FRAME static void pay(const Order& order) {
  VITRINE_PROBE(stacks, paid, order.id);
  NOT_THE_LAST;
}
A_FRAME static void check_out(const Order& order) {
  through_library(pay, order);
  NOT_THE_LAST;
}
}  // namespace shop

int main() {
  std::puts("ready");
  std::fflush(stdout);
  for (int c; (c = std::getchar()) != EOF;)
    if (c == '\n') shop::check_out({7});
}
#endif
