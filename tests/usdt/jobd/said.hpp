// What the test compares a trace with: each fire, by the program that makes it, as a JSON object.
#pragma once
#include <cstdio>

inline thread_local const char* said_tenant = "";
#define SAY(probe, format, ...)                                                               \
  std::fprintf(stderr, "{\"probe\":\"" probe "\",\"args\":[" format "],\"tenant\":\"%s\"}\n", \
               __VA_ARGS__, said_tenant)
