// Functions of Go programs by .gopclntab, which they have also when they are stripped; and what the
// code of one of them has.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <tuple>

#include "base/memory.hpp"
#include "base/pack.hpp"
#include "elf/file.hpp"

namespace vitrine::symbol {

/// Called with the address and the name of each function.
using VisitGoFunction = std::function<void(Address, std::string_view)>;

/// Whether a file was made by the Go tool chain.
bool is_go_file(const elf::File& elf);

/// Visits the functions of a table of Go 1.18 or later. What is malformed ends it.
void visit_go_functions(Memory& file, const elf::File& elf, const VisitGoFunction& visit);

/// Where a thread of a Go program has its goroutine's stack pointer while it is in the vdso, which
/// the runtime calls on another stack, the thread's own (g0). Offsets into structures of the runtime.
struct GoVdsoCall {
  std::uint32_t m_of_g = 0;
  std::uint32_t stack_of_m = 0;  ///< m.vdsoSP: above the return address of the runtime's function

  bool operator==(const GoVdsoCall&) const = default;
};

/// The offsets differ from release to release; runtime.nanotime1 has those of this file in its
/// instructions. nullopt: not known (no Go file, or other instructions: before 1.17, not x86-64).
std::optional<GoVdsoCall> find_go_vdso_call(Memory& file, const elf::File& elf);

/// Whether it can be one: the structures have some hundred bytes. A worker may return any.
constexpr bool is_sound(const GoVdsoCall& call) {
  constexpr std::uint32_t max_structure = 1U << 16;
  return call.m_of_g < max_structure && call.stack_of_m < max_structure;
}

template <pack::Of<GoVdsoCall> T>
auto fields(T& call) {
  auto& [m_of_g, stack_of_m] = call;
  return std::tie(m_of_g, stack_of_m);
}

}  // namespace vitrine::symbol
