#include "protocol.h"

#include <string.h>
#include <unistd.h>

#include "kvproto.h"
#include "said.h"

__thread const char* kvd_tenant = "";

bool protocol_read(int client, char* line, size_t room) {
  size_t size = 0;
  while (size + 1 < room && read(client, line + size, 1) == 1) {
    if (line[size] == '\n') {
      line[size] = '\0';
      SAY("kvproto:line-in", "\"%s\",%d", line, client);
      KVPROTO_LINE_IN(client, line);
      return true;
    }
    ++size;
  }
  return false;
}

static void all(int client, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t written = write(client, bytes, size);
    if (written <= 0) return;
    bytes += written;
    size -= (size_t)written;
  }
}

void protocol_write(int client, const char* line) {
  SAY("kvproto:line-out", "%d,\"%s\"", client, line);
  KVPROTO_LINE_OUT(client, line);
  all(client, line, strlen(line));
  all(client, "\n", 1);
}
