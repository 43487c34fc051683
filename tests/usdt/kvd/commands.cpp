#include "commands.hpp"

#include <cstring>

#include "protocol.h"
#include "store.h"

namespace {

bool answer(const Session& session, const char* text) {
  protocol_write(session.client(), text ? text : "(none)");
  return text != nullptr;
}

}  // namespace

bool command(Session& session, char* line) {
  char* state = nullptr;
  const char* verb = strtok_r(line, " ", &state);
  const char* key = strtok_r(nullptr, " ", &state);
  const char* value = strtok_r(nullptr, "", &state);
  if (!verb || !key) return false;
  session.start(verb, key);
  bool found = false;
  if (std::strcmp(verb, "get") == 0)
    found = answer(session, store_get(key));
  else if (std::strcmp(verb, "set") == 0 && value)
    found = answer(session, store_set(key, value) ? "stored" : nullptr);
  else
    answer(session, "what?");
  session.done(found);
  return true;
}
