// Two threads that work in turn on one CPU, each with its own labels. The stack of one is unwound in the kernel; that of the
// other has rules that only a copy can be unwound by, an expression of DWARF.
//
//   copied_stacks     prints "ready"; threads "plain" (tenant=acme) and "copied" (tenant=globex)
#include <sched.h>
#include <sys/prctl.h>

#include <cstdint>
#include <cstdio>
#include <thread>
#include <vitrine/labels.hpp>

// The address of the caller's frame is where it always is, plus 0 times another register.
extern "C" void work_by_expression(std::uint64_t turns);
asm(".text\n"
    ".globl work_by_expression\n"
    ".type work_by_expression, %function\n"
    "work_by_expression:\n"
    ".cfi_startproc\n"
#if defined(__x86_64__)
    ".cfi_escape 0x0f, 7, 0x77, 8, 0x73, 0, 0x30, 0x1e, 0x22\n"
    "1: dec %rdi\n"
    "jnz 1b\n"
#else
    ".cfi_escape 0x0f, 7, 0x8f, 0, 0x83, 0, 0x30, 0x1e, 0x22\n"
    "1: subs x0, x0, #1\n"
    "b.ne 1b\n"
#endif
    "ret\n"
    ".cfi_endproc\n"
    ".size work_by_expression, . - work_by_expression\n");

namespace {

constexpr std::uint64_t turns = 1'000'000;
volatile std::uint64_t sink;

[[gnu::noinline]] void work_plainly() {
  std::uint64_t hash = sink;
  for (std::uint64_t i = 0; i < turns; ++i) hash = hash * 31 + 7;
  sink = hash;
}

void stay_on_one_cpu() {
  cpu_set_t cpus;
  sched_getaffinity(0, sizeof cpus, &cpus);
  int first = 0;
  while (!CPU_ISSET(first, &cpus)) ++first;
  CPU_ZERO(&cpus);
  CPU_SET(first, &cpus);
  sched_setaffinity(0, sizeof cpus, &cpus);
}

}  // namespace

int main() {
  static const vitrine::labels::Key tenant("tenant");
  stay_on_one_cpu();
  std::thread plain([] {
    prctl(PR_SET_NAME, "plain");
    const vitrine::labels::Scope scope({{tenant, "acme"}});
    for (;;) work_plainly();
  });
  std::thread copied([] {
    prctl(PR_SET_NAME, "copied");
    const vitrine::labels::Scope scope({{tenant, "globex"}});
    for (;;) work_by_expression(turns);
  });
  std::puts("ready");
  std::fflush(stdout);
  plain.join();
  copied.join();
}
