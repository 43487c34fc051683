/* What an observer knows of these types is what this file says. */
typedef int myint;
typedef char ch;
typedef ch *text_t;
typedef struct request { int id; } request_t, *request_p;
typedef enum { RED, GREEN = 7 } colour_t;
typedef unsigned short port_t;
typedef port_t port2_t;

provider types {
  probe two(myint a, char *b);
  probe many(text_t s, request_t *r, request_p q, colour_t c, port2_t port, myint last, port_t on_stack);
};
