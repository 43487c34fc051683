/* What the matrix fires. */
provider matrix {
  probe none();
  probe one(int);
  probe words(const char *text, long number, unsigned long long wide);
  probe seven(int, int, int, int, int, int, long);
  probe asked(int);
  probe with__dashes(int);
  probe cold(int);
  probe last(int);
};

provider other {
  probe one(int, int);
  probe never(char *);
};
