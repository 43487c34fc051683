provider shop {
  probe plain();
  probe checked(int);
  probe mapped(int a, char *b, long c) : (string b, int a);
  probe sold(int, char *, long, uint8_t, short, uint64_t, int, char *, long);
};
