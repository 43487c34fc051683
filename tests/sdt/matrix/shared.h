/* Functions that both files of the subject have copies of. Every probe of the subject is here. */
#include <vitrine/sdt.h>

typedef enum { RED, GREEN = 5 } colour;

#ifdef __cplusplus
template <class T>
struct Counter {
  T total;
  __attribute__((noinline)) T add(T amount) {
    VITRINE_TYPED_PROBE(matrix, template_member, (amount), (total, total));
    total += amount;
    return total;
  }
};

inline int inline_function(int n) {
  VITRINE_LAZY_TYPED_PROBE(matrix, lazy, (n), (twice, n * 2));
  return n + 1;
}
#else
static inline int inline_function(int n) {
  VITRINE_LAZY_TYPED_PROBE(matrix, lazy, (n), (twice, n * 2));
  return n + 1;
}
#endif

static inline int unrolled(int n) {
  int sum = 0;
  for (int i = 0; i < 3; ++i) {
    VITRINE_PROBE(matrix, loop, i, sum);
    sum += n * i;
  }
  return sum;
}

#ifdef __cplusplus
extern "C" {
#endif
int other_file(int n);
#ifdef __cplusplus
}
#endif
