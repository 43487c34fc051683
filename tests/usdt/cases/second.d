provider second {
  probe both(int);
};
