provider jobd {
  probe job__queued(unsigned int id, size_t waiting);
  probe job__taken(unsigned int id, size_t waiting);
  probe job__start(unsigned int id, const char *work, long amount);
  probe job__done(unsigned int id, long result);
  probe worker__idle(int worker);
};
