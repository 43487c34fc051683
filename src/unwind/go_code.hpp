// How functions of Go are left, and where its runtime keeps the stacks of a thread.
//
// Go's compiler writes where the stack pointer is into .gopclntab, which is there also where the
// program is stripped, and where a C linker has put it together (then .eh_frame is about the C parts
// alone). It does not write that each frame keeps the caller's frame pointer in its highest word.
//
// A thread of Go has two stacks: the goroutine's, and one of its own (g0's) for the runtime, for C
// and for the vdso. The functions of the runtime that go from one to the other, in either direction,
// have their own frame on the one, and call with the stack pointer on the other. They leave the frame
// pointer as it is (since Go 1.21, those that call the vdso always have), so their frame is found by it.
// Others go from one goroutine to another (runtime.mcall, gogo): there a stack ends.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "base/pack.hpp"
#include "elf/go_functions.hpp"
#include "unwind/code_rules.hpp"
#include "unwind/rule.hpp"

namespace vitrine::unwind {

/// Where a thread has its other stack: offsets into structures of the runtime, which differ from
/// release to release. A g is a goroutine, or the thread's own g0; an m is a thread.
struct GoThread {
  std::int32_t g_of_thread = 0;  ///< from the thread pointer
  std::uint32_t m_of_g = 0;
  std::uint32_t current_of_m = 0;  ///< m.curg
  std::uint32_t vdso_of_m = 0;     ///< m.vdsoSP: the CFA of what calls the vdso, or 0
  std::uint32_t stack_of_g = 0;    ///< g.sched.sp: the stack pointer of what has left that stack

  bool operator==(const GoThread&) const = default;
};

/// Whether it can be one: the structures have some hundred bytes. A worker may return any.
constexpr bool is_sound(const GoThread& thread) {
  constexpr std::uint32_t max_structure = 1U << 16;
  return thread.g_of_thread < 0 && thread.m_of_g < max_structure &&
         thread.current_of_m < max_structure && thread.vdso_of_m < max_structure &&
         thread.stack_of_g < max_structure;
}

template <pack::Of<GoThread> T>
auto fields(T& thread) {
  auto& [g_of_thread, m_of_g, current_of_m, vdso_of_m, stack_of_g] = thread;
  return std::tie(g_of_thread, m_of_g, current_of_m, vdso_of_m, stack_of_g);
}

/// The offsets are in the instructions of runtime.systemstack and runtime.nanotime1. nullopt: no Go
/// program, or other instructions (before 1.17, not x86-64).
std::optional<GoThread> find_go_thread(Memory& file, const elf::File& elf);

/// The functions of Go in one file. x86-64 only.
class GoCode {
 public:
  /// `file` must outlive this. nullopt: it has none.
  static std::optional<GoCode> open(Memory& file, const elf::File& elf, ReadCode read);

  /// Whether a function has the address.
  bool has(Address address) { return functions_.find(address).has_value(); }

  /// nullopt: it cannot be left there by what is known.
  std::optional<Row> row(Address address);

  /// Of the function around an address.
  RuleBlock rules_around(Address address);

 private:
  struct Shape;
  using Take = std::function<bool(Address from, Address to, const Row* row)>;

  GoCode(const elf::GoFunctions& functions, ReadCode read)
      : functions_(functions), read_(std::move(read)) {}

  void visit_rows(const elf::GoFunction& function, const Take& take);
  Shape shape_of(const elf::GoFunction& function);
  Address stack_write(const elf::GoFunction& function);

  elf::GoFunctions functions_;
  ReadCode read_;
};

}  // namespace vitrine::unwind
