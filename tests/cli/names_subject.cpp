// One chain of calls with every kind of name: a function inlined, one made at run time, a symbol
// without a size, one with a version (AS_LIBRARY), and main. The innermost function spins and fires
// a probe.
#include <sys/mman.h>
#include <unistd.h>
#include <vitrine/sdt.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

using Function = void (*)();

#ifdef AS_LIBRARY
// Three @: the symbol table has the symbol under this name alone.
asm(".symver versioned, with_version@@@V_1");
extern "C" __attribute__((noinline)) void versioned(void (*call)(Function), Function function) {
  call(function);
  asm volatile("" ::: "memory");  // or the call becomes a jump
}
#else
extern "C" void with_version(void (*call)(Function), Function function);
extern "C" void without_size(Function function);

// No .size: the symbol's is 0.
asm(R"(
  .text
  .globl without_size
  .type without_size, @function
without_size:
  .cfi_startproc
  push %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  mov %rsp, %rbp
  .cfi_def_cfa_register %rbp
  call *%rdi
  pop %rbp
  .cfi_def_cfa %rsp, 8
  ret
  .cfi_endproc
)");

namespace names {

inline __attribute__((always_inline)) void inlined() {
  for (unsigned spins = 0; spins < 2'000'000; ++spins) asm volatile("" ::: "memory");
  VITRINE_PROBE(names, spun);
}

__attribute__((noinline)) void work() {
  inlined();
  asm volatile("" ::: "memory");
}

// push %rbp; mov %rsp, %rbp; mov $work, %rax; call *%rax; pop %rbp; ret
Function made() {
  unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8, 0,    0,    0,
                          0,    0,    0,    0,    0,    0xff, 0xd0, 0x5d, 0xc3};
  const auto target = reinterpret_cast<std::uintptr_t>(&work);
  std::memcpy(code + 6, &target, sizeof target);
  void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::memcpy(page, code, sizeof code);
  ::mprotect(page, 4096, PROT_READ | PROT_EXEC);
  const std::string path = "/tmp/perf-" + std::to_string(::getpid()) + ".map";
  if (std::FILE* map = std::fopen(path.c_str(), "w")) {
    std::fprintf(map, "%lx %zx made_at_run_time\n", reinterpret_cast<unsigned long>(page),
                 sizeof code);
    std::fclose(map);
  }
  return reinterpret_cast<Function>(page);
}

}  // namespace names

int main() {
  const Function function = names::made();
  std::puts("ready");
  std::fflush(stdout);
  for (;;) with_version(&without_size, function);
}
#endif
