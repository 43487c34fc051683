provider cases {
  probe live(int);
  probe dead(int);
  probe other(int);
  probe called(int);
  probe start(int);
  probe done(int);
  probe tick(int);
};
