/* What the server does. */
provider kvd {
  probe client__open(int client);
  probe client__close(int client);
  probe command__start(int client, const char *verb, const char *key);
  probe command__done(int client, int found, unsigned long long commands);
};

/* What its store does. */
provider kvstore {
  probe set(const char *key, size_t size);
  probe hit(const char *key, size_t size);
  probe miss(const char *key);
};

#pragma D attributes Evolving/Evolving/Common provider kvd provider
#pragma D attributes Evolving/Evolving/Common provider kvd name
#pragma D attributes Evolving/Evolving/Common provider kvd args
