// Resolves thread-local variables of its own process and compares them with what the compiler's
// code finds. It reads itself through a Memory, so it needs neither ptrace nor /proc, and runs
// under qemu-user: this is how the resolver's arithmetic for another machine is checked
// (docs/formats/tls.md, "How it is verified").
//
// Arguments: a library with slots, and then libraries with thread-local storage to open before it.
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "elf/symbols.hpp"
#include "target/modules.hpp"
#include "target/tls_resolver.hpp"

#ifndef SELFCHECK_ALIGNMENT
#define SELFCHECK_ALIGNMENT 8
#endif

extern "C" {
// In the executable: exported, so that it is found by name.
__attribute__((visibility("default"), used,
               aligned(SELFCHECK_ALIGNMENT))) thread_local void* selfcheck_variable = nullptr;
__attribute__((used)) static thread_local char in_between[40] = {1};
}

namespace vitrine::target {
namespace {

// Our own memory, where the kernel answers for what cannot be read.
class OwnMemory final : public Memory {
 public:
  OwnMemory() {
    if (::pipe(pipe_) != 0) std::abort();
  }
  ~OwnMemory() override {
    ::close(pipe_[0]);
    ::close(pipe_[1]);
  }

  void read(std::span<ReadRequest> requests) override {
    for (ReadRequest& request : requests) {
      request.got = 0;
      while (!request.complete()) {
        const Address at = request.address + request.got;
        const auto rest = request.into.subspan(request.got);
        const std::size_t in_page = 4096 - static_cast<std::size_t>(at % 4096);
        const std::size_t size = std::min(rest.size(), in_page);
        // The bare system call: a sanitizer that stands in for write() would judge the address.
        const auto n = ::syscall(SYS_write, pipe_[1], at, size);
        if (n <= 0 || ::read(pipe_[0], rest.data(), static_cast<std::size_t>(n)) != n) break;
        request.got += static_cast<std::size_t>(n);
      }
    }
  }

 private:
  int pipe_[2] = {-1, -1};
};

Address thread_pointer() {
  Address tp = 0;
#if defined(__x86_64__)
  asm("mov %%fs:0, %0" : "=r"(tp));
#else
  asm("mrs %0, tpidr_el0" : "=r"(tp));
#endif
  return tp;
}

constexpr Machine machine =
#if defined(__x86_64__)
    Machine::x86_64;
#else
    Machine::aarch64;
#endif

int failures = 0;

void expect(bool holds, const std::string& what) {
  fmt::print("{} {}\n", holds ? "ok  " : "FAIL", what);
  if (!holds) ++failures;
}

struct Variable {
  std::string name;
  TlsLocation location;
};

// Every definition of `name` in the process.
std::vector<Variable> resolve(Memory& memory, std::string_view name) {
  Modules modules({::getauxval(AT_PHDR), ::getauxval(AT_PHNUM), ::getauxval(AT_BASE)}, "self");
  if (!modules.refresh(memory)) std::abort();
  TlsResolver resolver(memory, machine, modules.all());
  std::vector<Variable> found;
  for (const Module& module : modules.all()) {
    if (!module.dynamic || module.image.find(PT_TLS) == nullptr) continue;
    const auto symbol = elf::find_symbol(memory, *module.dynamic, name);
    if (!symbol || !*symbol) continue;
    const auto resolved = resolver.resolve(module, **symbol, name);
    expect(resolved.has_value(),
           fmt::format("{} in {}: {}", name, module.path,
                       resolved ? describe(resolved->location) : resolved.error().message));
    if (resolved) found.push_back({std::string(name), resolved->location});
  }
  return found;
}

void compare(Memory& memory, const Variable& variable, const void* truth, const char* where) {
  const auto at = evaluate(variable.location, machine, thread_pointer(), memory);
  const bool same = at && *at && **at == reinterpret_cast<Address>(truth);
  expect(same, fmt::format("{} in {}: {} is {}", variable.name, where,
                           at && *at ? hex(**at) : std::string("nowhere"), truth));
}

// A thread that does what it is told, one thing after the other.
class Worker {
 public:
  void run(std::function<void()> task) {
    std::unique_lock lock(mutex_);
    task_ = std::move(task);
    changed_.notify_all();
    changed_.wait(lock, [&] { return task_ == nullptr; });
  }
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return task_ != nullptr || ended_; });
      if (task_ == nullptr) return;
      task_();
      task_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> task_;
  bool ended_ = false;
  std::thread thread_{[this] { serve(); }};
};

void check_executable(Memory& memory, Worker& worker) {
  const auto found = resolve(memory, "selfcheck_variable");
  expect(found.size() == 1, "the executable's variable is found");
  for (const Variable& variable : found) {
    compare(memory, variable, &selfcheck_variable, "the main thread");
    worker.run([&] { compare(memory, variable, &selfcheck_variable, "another thread"); });
  }
}

void check_library(Memory& memory, Worker& worker, const char* path) {
  void* library = ::dlopen(path, RTLD_NOW);
  if (library == nullptr) {
    expect(false, ::dlerror());
    return;
  }
  constexpr const char* name = "custom_labels_current_set";
  const auto found = resolve(memory, name);
  expect(found.size() == 1, fmt::format("the variable of {} is found", path));
  for (const Variable& variable : found) {
    // Before anyone has used it, in a thread older than the library: not there, or there and null.
    worker.run([&] {
      const auto at = evaluate(variable.location, machine, thread_pointer(), memory);
      expect(at && (!*at || memory.read_value<Address>(**at, name) == Result<Address>(0)),
             "it is null in a thread that has never used it");
    });
    compare(memory, variable, ::dlsym(library, name), "the main thread");
    worker.run([&] { compare(memory, variable, ::dlsym(library, name), "another thread"); });
  }
}

}  // namespace
}  // namespace vitrine::target

int main(int count, char** arguments) {
  using namespace vitrine::target;
  OwnMemory memory;
  Worker worker;
  check_executable(memory, worker);
  for (int i = 2; i < count; ++i) expect(::dlopen(arguments[i], RTLD_NOW) != nullptr, arguments[i]);
  if (count > 1) check_library(memory, worker, arguments[1]);
  return failures == 0 ? 0 : 1;
}
