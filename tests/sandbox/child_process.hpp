// What cannot be undone is tried in a child.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace vitrine::test {

/// Runs `body` in a child. Returns what it returns, or 128 + the signal that ended it.
template <class Body>
int in_child(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  if (pid < 0 || ::waitpid(pid, &status, 0) != pid) return -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace vitrine::test
