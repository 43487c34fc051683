// What the test compares a trace with: each fire, by the program that makes it, as a JSON object.
#ifndef KVD_SAID_H
#define KVD_SAID_H
#include <stdio.h>

extern __thread const char* kvd_tenant;
#define SAY(probe, format, ...)                                                          \
  fprintf(stderr, "{\"probe\":\"" probe "\",\"args\":[" format "],\"tenant\":\"%s\"}\n", \
          __VA_ARGS__, kvd_tenant)
#endif
