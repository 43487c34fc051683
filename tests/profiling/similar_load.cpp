// Waits, or works, in groups: each group differs from the one before in one thing alone, and has the same stack words,
// addresses and labels otherwise.
//
//   similar_load wait|work    prints "ready"
//
// What differs is in the name of the function that does it: by_tenant (another set at the same address), by_label (a set
// or none), by_name, by_caller, by_site (two system call instructions, each at the same place of its page), by_depth
// (the words of the deeper stack are left below the other), by_call, by_inner (one system call that waits in two
// places of the kernel), by_processor, by_variables (those of another thread), by_mappings.
#include <alloca.h>
#include <customlabels.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <asm/prctl.h>
#endif

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <thread>
#include <vitrine/labels.hpp>

// A system call, and four arguments. Both are the same code.
using Site = long(long call, long one, long two, long three, long four);
extern "C" Site first_site, second_site;

#if defined(__x86_64__)
#define SITE(name)                                                                             \
  asm(".text\n.p2align 12\n.type " name ", @function\n" name                                   \
      ":\n.cfi_startproc\nmov %rdi, %rax\nmov %rsi, %rdi\nmov %rdx, %rsi\nmov %rcx, %rdx\n"    \
      "mov %r8, %r10\nxor %r8d, %r8d\nxor %r9d, %r9d\nsyscall\nret\n.cfi_endproc\n.size " name \
      ", . - " name)
SITE("first_site");
SITE("second_site");
#else
long first_site(long call, long one, long two, long three, long four) {
  return syscall(call, one, two, three, four);
}
long second_site(long call, long one, long two, long three, long four) {
  const long out = syscall(call, one, two, three, four);
  asm volatile("" ::: "memory");
  return out;
}
#endif

namespace {

namespace labels = vitrine::labels;

// Not constants: loops that were unrolled would wait in several places.
volatile int waits_of_group = 4, groups = 4;

void check(bool is_well) {
  if (!is_well) std::abort();
}

const timespec half{0, 500'000};
bool works;
volatile std::uint64_t sink;
std::uintptr_t own_variables;
std::atomic<std::uintptr_t> other_variables{0};
std::atomic<bool> migrates{false};

long number_of(const void* pointer) {
  return static_cast<long>(reinterpret_cast<std::uintptr_t>(pointer));
}

void work() {
  std::uint64_t hash = sink;
  for (int i = 0; i < 1'000'000; ++i) hash = hash * 31 + 7;
  sink = hash;
}

// Not an argument, as that would be in a register, and on the stack.
Site* volatile site_in_use = first_site;

[[gnu::noinline]] void wait_once() {
  works ? work() : static_cast<void>(site_in_use(SYS_nanosleep, number_of(&half), 0, 0, 0));
  asm volatile("" ::: "memory");
}

[[gnu::noinline]] void wait_group() {
  for (int i = 0; i < waits_of_group; ++i) wait_once();
}

/// Sets at one address, one after another: the memory of those that are gone is used again in turn.
class SetsInPlace {
 public:
  labels::Set next(std::string_view tenant) {
    static const labels::Key key("tenant");
    for (int i = 0; i < 1000; ++i) {
      labels::Set set = labels::Set::of({{key, tenant}});
      const void* place = place_of(set);
      if (place_ == nullptr) place_ = place;
      if (place == place_) return set;
    }
    std::abort();
  }

 private:
  static const void* place_of(const labels::Set& set) {
    const labels::Attach attached(set);
    return custom_labels_current_set;
  }

  const void* place_ = nullptr;
};

SetsInPlace sets;

[[gnu::noinline]] void by_tenant(bool other) {
  const labels::Attach attached(sets.next(other ? "blue" : "acme"));
  wait_group();
}

[[gnu::noinline]] void by_label(bool other) {
  std::optional<labels::Attach> attached;
  if (other) attached.emplace(sets.next("acme"));
  wait_group();
}

[[gnu::noinline]] void by_name(bool other) {
  prctl(PR_SET_NAME, other ? "odd" : "even");
  wait_group();
  asm volatile("" ::: "memory");
}

// Two callers with frames of one size, and not one function.
[[gnu::noinline]] void in_one_place() {
  wait_once();
  asm volatile("# one" ::: "memory");
}
[[gnu::noinline]] void in_another_place() {
  wait_once();
  asm volatile("# another\n nop" ::: "memory");
}

[[gnu::noinline]] void by_caller(bool other) {
  for (int i = 0; i < waits_of_group; ++i) other ? in_another_place() : in_one_place();
}

[[gnu::noinline]] void by_site(bool other) {
  site_in_use = other ? second_site : first_site;
  wait_group();
  site_in_use = first_site;
}

[[gnu::noinline]] void by_depth(bool other) {
  if (other) asm volatile("" ::"r"(alloca(16 * 1024)) : "memory");
  for (int i = 0; i < waits_of_group; ++i) other ? in_another_place() : in_one_place();
}

[[gnu::noinline]] void by_call(bool other) {
  for (int i = 0; i < waits_of_group; ++i) {
    timespec time = half;
    const long call = other ? SYS_ppoll : SYS_nanosleep;
    other ? first_site(call, 0, 0, number_of(&time), 0)
          : first_site(call, number_of(&time), 0, 0, 0);
  }
}

/// Nothing comes: reading ends after some time.
int silent_socket(int type) {
  const timeval time{0, 500};
  int ends[2];
  check(socketpair(AF_UNIX, type, 0, ends) == 0);
  check(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
  return ends[0];
}

[[gnu::noinline]] void by_inner(bool other) {
  static const int stream = silent_socket(SOCK_STREAM), datagrams = silent_socket(SOCK_DGRAM);
  char byte;
  for (int i = 0; i < waits_of_group; ++i)
    first_site(SYS_read, other ? datagrams : stream, number_of(&byte), 1, 0);
}

[[gnu::noinline]] void by_processor(bool other) {
  migrates = other;
  wait_group();
  migrates = false;
}

#if defined(__x86_64__)
[[gnu::noinline]] void by_variables(bool other) {
  const auto variables = static_cast<long>(other ? other_variables.load() : own_variables);
  for (int i = 0; i < waits_of_group; ++i) {  // nothing in between has variables of the thread
    first_site(SYS_arch_prctl, ARCH_SET_FS, variables, 0, 0);
    works ? work() : static_cast<void>(first_site(SYS_nanosleep, number_of(&half), 0, 0, 0));
    first_site(SYS_arch_prctl, ARCH_SET_FS, static_cast<long>(own_variables), 0, 0);
  }
}
#endif

/// Waits until the reader has given the kernel the new mappings, as a rule.
[[gnu::noinline]] void by_mappings(bool other) {
  constexpr std::size_t page = 4096;
  static const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  static int calls = 0;
  if (!other || ++calls % groups != 0) return;
  void* mapped = mmap(nullptr, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
  check(mapped != MAP_FAILED);
  for (int i = 0; i < 25; ++i) wait_group();
  check(munmap(mapped, page) == 0);
}

/// Its variables are lent to the other thread, which it moves from one CPU to another.
void help(pid_t waiting, const cpu_set_t& all) {
  const labels::Scope scope(labels::Key("tenant"), "lent");
  other_variables = reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
  int last = 0;
  while (true) {
    const timespec pause{0, 3'000'000};
    nanosleep(&pause, nullptr);
    if (!migrates) continue;
    do last = (last + 1) % CPU_SETSIZE;
    while (!CPU_ISSET(last, &all));
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    sched_setaffinity(waiting, sizeof one, &one);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  works = std::string_view(argv[1]) == "work";
  own_variables = reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
  cpu_set_t all;
  check(sched_getaffinity(0, sizeof all, &all) == 0);
  std::thread(help, gettid(), std::cref(all)).detach();
  while (other_variables == 0) sched_yield();
  std::puts("ready");
  std::fflush(stdout);
  constexpr auto turns = [](auto*... by) {
    const auto each = [](void (*does)(bool)) {
      for (int group = 0; group < groups; ++group) does(group % 2 != 0);
    };
    (each(by), ...);
  };
  while (true) {
    turns(by_tenant, by_label, by_name, by_processor);
#if defined(__x86_64__)
    turns(by_variables);
#endif
    if (!works) turns(by_caller, by_site, by_depth, by_call, by_inner, by_mappings);
  }
}
