// Runs something at every single instruction of what it interrupts: one round is single-stepped (trap
// flag) to learn which instructions of the program there are; then each in turn gets a breakpoint.
// What depends on luck elsewhere is exhaustive here. For programs that link the library statically.
#pragma once

#if defined(__x86_64__)

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdint>
#include <set>

namespace vitrine::test {

extern "C" const char __executable_start;
extern "C" const char etext;

/// One at a time, on one thread.
class Stepping {
 public:
  /// Around what is to be interrupted. (The stack is left alone: the compiler may keep things below
  /// its top.)
  static void on() {
    if (stepping) {
      __asm__ volatile("subq $128, %%rsp; pushfq; orq $0x100, (%%rsp); popfq; addq $128, %%rsp" ::
                           : "memory", "cc");
    } else if (breakpoint != nullptr) {
      *breakpoint = 0xcc;
    }
  }
  static void off() {
    if (stepping) {
      __asm__ volatile("subq $128, %%rsp; pushfq; andq $~0x100, (%%rsp); popfq; addq $128, %%rsp" ::
                           : "memory", "cc");
    } else if (breakpoint != nullptr) {
      *breakpoint = replaced;
    }
  }

  /// Runs `round(number)` (with `on` and `off` in it) once for each of its instructions, and `handler`
  /// there. `look`, if not null, runs at each instruction of the first round, where `handler` does
  /// not. Neither may allocate memory. Returns at how many instructions the handler ran.
  template <class F>
  static long each(void (*handler)(), F&& round, void (*look)() = nullptr) {
    const std::set<unsigned char*> instructions = prepare(handler, round, look);
    long met = 0, number = 0;
    for (unsigned char* instruction : instructions) {
      met += interrupted_at(instruction, nullptr, ++number, round);
      if (testing::Test::HasFailure()) break;
    }
    sigaction(SIGTRAP, &before, nullptr);
    return met;
  }

  /// The same, and `handler` runs a second time at each instruction that comes later. Returns how often
  /// it ran twice.
  template <class F>
  static long each_two(void (*handler)(), F&& round) {
    const std::set<unsigned char*> instructions = prepare(handler, round, nullptr);
    long met = 0, number = 0;
    for (unsigned char* first : instructions) {
      for (unsigned char* second : instructions) {
        met += interrupted_at(first, second, ++number, round);
        if (testing::Test::HasFailure()) break;
      }
      if (testing::Test::HasFailure()) break;
    }
    sigaction(SIGTRAP, &before, nullptr);
    return met;
  }

 private:
  /// Single-steps a first round. Returns the instructions of the program that it executed.
  template <class F>
  static std::set<unsigned char*> prepare(void (*handler)(), F&& round, void (*look)()) {
    // What the program itself is made of becomes writable, for the breakpoints.
    const auto begin =
        reinterpret_cast<std::uintptr_t>(&__executable_start) & ~std::uintptr_t{4095};
    const auto end = reinterpret_cast<std::uintptr_t>(&etext);
    EXPECT_EQ(
        mprotect(reinterpret_cast<void*>(begin), end - begin, PROT_READ | PROT_WRITE | PROT_EXEC),
        0);
    struct sigaction action {};
    action.sa_sigaction = on_trap;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGTRAP, &action, &before);
    // As a table: the handler of the trap must not allocate.
    table_size = 0;
    looking = look;
    stepping = true;
    round(0);
    stepping = false;
    work = handler;
    return {table, table + table_size};
  }

  /// Whether the round was interrupted at both instructions, or at the first, if there is no second.
  template <class F>
  static bool interrupted_at(unsigned char* first, unsigned char* second, long number, F&& round) {
    next = second;
    set_breakpoint(first);
    round(number);
    const bool met = breakpoint == nullptr && next == nullptr;
    breakpoint = next = nullptr;
    if (testing::Test::HasFailure())
      ADD_FAILURE() << "at " << static_cast<void*>(first) << " and " << static_cast<void*>(second);
    return met;
  }
  static void set_breakpoint(unsigned char* instruction) {
    replaced = *instruction;
    breakpoint = instruction;
  }

  static void on_trap(int, siginfo_t*, void* context) {
    auto& rip = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
    if (stepping) {
      auto* at = reinterpret_cast<unsigned char*>(rip);
      if (at >= reinterpret_cast<const unsigned char*>(&__executable_start) &&
          at < reinterpret_cast<const unsigned char*>(&etext) && table_size < table_max)
        table[table_size++] = at;
      if (looking != nullptr) looking();
      return;
    }
    if (breakpoint == nullptr) return;
    rip -= 1;
    *breakpoint = replaced;
    breakpoint = nullptr;
    work();
    if (next == nullptr) return;
    set_breakpoint(next);
    next = nullptr;
    on();
  }

  static constexpr std::size_t table_max = 1 << 18;
  static inline unsigned char* table[table_max];
  static inline std::size_t table_size = 0;
  static inline void (*work)() = nullptr;
  static inline void (*looking)() = nullptr;
  static inline struct sigaction before;
  static inline unsigned char* breakpoint = nullptr;  ///< null: none, or met
  static inline unsigned char* next = nullptr;        ///< the one after it
  static inline unsigned char replaced = 0;
  static inline bool stepping = false;
};

}  // namespace vitrine::test

#endif
