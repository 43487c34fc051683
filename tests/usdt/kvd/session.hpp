// One client's session. Inline, with probes: every file that includes it has a copy, and the linker
// keeps one.
#pragma once

#include "kvd.h"
#include "said.h"

class Session {
 public:
  explicit Session(int client) : client_(client) {
    SAY("kvd:client-open", "%d", client_);
    KVD_CLIENT_OPEN(client_);
  }
  ~Session() {
    SAY("kvd:client-close", "%d", client_);
    KVD_CLIENT_CLOSE(client_);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int client() const { return client_; }

  void start(const char* verb, const char* key) {
    ++commands_;
    if (KVD_COMMAND_START_ENABLED()) {
      SAY("kvd:command-start", "%d,\"%s\",\"%s\"", client_, verb, key);
      KVD_COMMAND_START(client_, verb, key);
    }
  }
  void done(bool found) {
    SAY("kvd:command-done", "%d,%d,%llu", client_, found, commands_);
    KVD_COMMAND_DONE(client_, found, commands_);
  }

 private:
  int client_;
  unsigned long long commands_ = 0;
};
