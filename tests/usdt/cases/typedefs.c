/* The types of typedefs.d, and one fire of each of its probes. */
typedef int myint;
typedef char ch;
typedef ch* text_t;
typedef struct request {
  int id;
} request_t, *request_p;
typedef enum { RED, GREEN = 7 } colour_t;
typedef unsigned short port_t;
typedef port_t port2_t;

#include "typedefs.h"

int main(void) {
  TYPES_TWO(-5, "hello");
  TYPES_MANY("text", (request_t*)16, (request_p)32, GREEN, 65000, -2, 9);
  return 0;
}
