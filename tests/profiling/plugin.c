/* A plugin of plugins.c: FUNCTION is its name. What it calls is its own, too, under another name, in a
 * frame of another size. */
long __attribute__((noinline)) NESTED(long n) {
  volatile char room[ROOM];
  room[n % ROOM] = 1;
  long sum = 0;
  for (long i = 0; i < 300000; ++i) sum += i ^ n ^ room[i % ROOM];
  return sum;
}

long FUNCTION(long n) {
  volatile char room[ROOM / 2];
  room[n % (ROOM / 2)] = 2;
  const long sum = NESTED(n) + room[0];
  return sum + room[1];
}
