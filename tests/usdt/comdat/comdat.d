provider comdat {
  probe inlined(int);
  probe templated(int, long);
  probe constructed(int);
  probe destroyed(int);
  probe lambda(int);
  probe thrown(int);
  probe own(int, const char *);
};
