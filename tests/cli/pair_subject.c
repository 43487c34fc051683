// A program whose operations begin and end with probes. It does what its arguments say, after a line
// on standard input if the first one is `wait`:
//   plain N     N pairs pair:begin(id, name), pair:end(status, id); each tenth takes 5 ms
//   nested      an operation within one, on the same thread; the inner one takes 5 ms
//   lonely      an end without a start, a start without an end
//   crossing    an operation that another thread ends, 5 ms later
//   long        a pair of 5 ms whose start has two texts of 3,000 bytes
//   fork        a child has a pair of 5 ms and ends at once
//   threads N   32 threads, each of which fires pair:begin N times
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vitrine/sdt.h>

__attribute__((noinline)) static void begin(int id, const char* name) {
  VITRINE_TYPED_PROBE(pair, begin, (id, id), (name, name));
}

__attribute__((noinline)) static void end(int id) {
  VITRINE_TYPED_PROBE(pair, end, (status, id * 2), (id, id));
}

__attribute__((noinline)) static void operate(int id, int slow) {
  char name[32];
  snprintf(name, sizeof name, "operation %d", id);
  begin(id, name);
  if (slow) usleep(5000);
  end(id);
}

static void* end_elsewhere(void* id) {
  usleep(5000);
  end(*(int*)id);
  return NULL;
}

static void cross(void) {
  int id = 71;
  pthread_t thread;
  begin(id, "crossing");
  pthread_create(&thread, NULL, end_elsewhere, &id);
  pthread_join(thread, NULL);
}

static void fire_long(void) {
  static char first[3001], second[3001];
  memset(first, 'a', 3000);
  memset(second, 'b', 3000);
  VITRINE_TYPED_PROBE(pair, begin, (id, 9), (name, (const char*)first),
                      (more, (const char*)second));
  usleep(5000);
  end(9);
}

static void in_child(void) {
  const pid_t child = fork();
  if (child == 0) {
    operate(40, 1);
    _exit(0);
  }
  waitpid(child, NULL, 0);
}

static long fires;
static pthread_barrier_t all_there;

static void* fire(void* unused) {
  (void)unused;
  pthread_barrier_wait(&all_there);
  for (long i = 0; i < fires; ++i) begin((int)i, "burst");
  return NULL;
}

static void burst(void) {
  pthread_t threads[32];
  pthread_barrier_init(&all_there, NULL, 32);
  for (int i = 0; i < 32; ++i) pthread_create(&threads[i], NULL, fire, NULL);
  for (int i = 0; i < 32; ++i) pthread_join(threads[i], NULL);
}

int main(int argc, char** argv) {
  char line[8];
  for (int i = 1; i < argc; ++i) {
    const char* word = argv[i];
    if (!strcmp(word, "wait")) {
      printf("ready %d\n", getpid());
      fflush(stdout);
      if (!fgets(line, sizeof line, stdin)) return 1;
    } else if (!strcmp(word, "plain") && i + 1 < argc) {
      const int count = atoi(argv[++i]);
      for (int id = 0; id < count; ++id) operate(id, id % 10 == 3);
    } else if (!strcmp(word, "nested")) {
      begin(1, "outer");
      operate(2, 1);
      end(1);
    } else if (!strcmp(word, "lonely")) {
      end(5);
      begin(6, "lonely");
      operate(7, 0);
    } else if (!strcmp(word, "crossing")) {
      cross();
    } else if (!strcmp(word, "long")) {
      fire_long();
    } else if (!strcmp(word, "fork")) {
      in_child();
    } else if (!strcmp(word, "threads") && i + 1 < argc) {
      fires = atol(argv[++i]);
      burst();
    } else {
      return 2;
    }
  }
  return 0;
}
