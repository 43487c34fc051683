provider joblog {
  probe line(const char *text);
};
