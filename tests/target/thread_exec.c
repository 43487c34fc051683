/* Its leader waits, and another thread executes the program again after a millisecond: the id of that
 * thread becomes the leader's. */
#include <pthread.h>
#include <stddef.h>
#include <unistd.h>

static void* execute(void* program) {
  usleep(1000);
  execl("/proc/self/exe", program, (char*)NULL);
  _exit(1);
}

int main(int count, char** arguments) {
  pthread_t thread;
  if (count < 1 || pthread_create(&thread, NULL, execute, arguments[0]) != 0) return 1;
  for (;;) pause();
}
