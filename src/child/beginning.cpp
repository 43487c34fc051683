#include "child/beginning.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <initializer_list>

namespace vitrine::child {
namespace {

void keep_capability(int kept) {
  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct held[_LINUX_CAPABILITY_U32S_3] = {};
  __user_cap_data_struct rest[_LINUX_CAPABILITY_U32S_3] = {};
  if (kept >= 0 && ::syscall(SYS_capget, &head, held) == 0) {
    auto& word = rest[CAP_TO_INDEX(kept)];
    word.permitted = held[CAP_TO_INDEX(kept)].permitted & CAP_TO_MASK(kept);
    word.effective = held[CAP_TO_INDEX(kept)].effective & CAP_TO_MASK(kept);
  }
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  ::syscall(SYS_capset, &head, rest);
}

}  // namespace

int leave_everything(int keep) {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) ::sigaction(number, &standard, nullptr);
  // A terminal and a service manager send these to all of a group: it is for the parent to end us.
  struct sigaction passed_over {};
  passed_over.sa_handler = SIG_IGN;
  for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM})
    ::sigaction(number, &passed_over, nullptr);
  const int first = 3;
  if (keep < first) keep = ::fcntl(keep, F_DUPFD, first);  // out of the way of 0 to 2
  const int nothing = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < first; ++fd) ::dup2(nothing, fd);
  if (keep != first) ::dup2(keep, first);
  if (::syscall(SYS_close_range, first + 1, ~0U, 0) != 0)  // before Linux 5.9
    for (long fd = first + 1; fd < ::sysconf(_SC_OPEN_MAX); ++fd) ::close(static_cast<int>(fd));
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  return first;
}

void settle(const char* name, pid_t parent, int kept) {
  ::prctl(PR_SET_NAME, name);
  ::prctl(PR_SET_DUMPABLE, 0);
  keep_capability(kept);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);  // it went before it could have been noticed
  rlimit core{};
  if (::getrlimit(RLIMIT_CORE, &core) == 0) {
    core.rlim_cur = 0;
    ::setrlimit(RLIMIT_CORE, &core);
  }
}

}  // namespace vitrine::child
