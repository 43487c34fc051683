#include "bpf/readers.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace vitrine::bpf {

void let_programs_end() {
  constexpr std::chrono::milliseconds longer_than_any{10};
  // In the kernel this is synchronize_rcu(). It is refused where CPUs are left alone (nohz_full).
  if (::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) != 0)
    std::this_thread::sleep_for(longer_than_any);
}

}  // namespace vitrine::bpf
