// kvd: a key-value server. One client after another, each on a thread of its own, with the label
// `tenant` that the client's first line names. Ends when a client says "stop".
//
//   kvd SOCKET
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <thread>
#include <vitrine/labels.hpp>

#include "commands.hpp"
#include "protocol.h"

namespace {

const vitrine::labels::Key tenant("tenant");

/// False: the server shall stop.
bool serve(int client) {
  char name[64];
  if (!protocol_read(client, name, sizeof name) || std::strcmp(name, "stop") == 0) return false;
  const vitrine::labels::Scope scope(tenant, name);
  kvd_tenant = name;
  Session session(client);
  char line[256];
  while (protocol_read(client, line, sizeof line) && command(session, line)) {
  }
  return true;
}

}  // namespace

int main(int, char** arguments) {
  const int server = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", arguments[1]);
  if (bind(server, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(server, 5) != 0) {
    std::perror("kvd");
    return 1;
  }
  for (bool go_on = true; go_on;) {
    const int client = accept(server, nullptr, nullptr);
    std::thread([&] { go_on = client >= 0 && serve(client); }).join();
    close(client);
  }
  return 0;
}
