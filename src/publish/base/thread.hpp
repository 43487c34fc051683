// The running thread's state: how its TLS variable is addressed, and when it ends.
#pragma once

#include <vitrine/detail/slot.hpp>

#include "publish/base/arena.hpp"

// VITRINE_TLS_ADDRESS(symbol): the address of a TLS variable on this thread.
//
// Executables: whatever the compiler emits (static TLS). Libraries must go through a TLS descriptor
// (the ABI asks for it). gcc has -mtls-dialect for that; clang before 18 has no such switch on
// x86-64, so there the canonical instruction sequence is written out.
#if VITRINE_TLSDESC_BY_ASM && defined(__x86_64__)

// The descriptor's function keeps every register but rax. It is called from a function of its own
// because a call in inline assembly would overwrite its caller's red zone.
// NOLINTBEGIN(bugprone-macro-parentheses): the macros' arguments are names of symbols
#define VITRINE_TLS_ADDRESS(symbol) vitrine_tls_address_of_##symbol()
#define VITRINE_TLS_ACCESSOR(symbol) \
  extern "C" __attribute__((visibility("hidden"))) void* vitrine_tls_address_of_##symbol() noexcept;
// clang-format off
#define VITRINE_DEFINE_TLS_ACCESSOR(symbol, name)                 \
  __asm__(".pushsection .text.vitrine_tls,\"ax\",@progbits\n"     \
          ".globl vitrine_tls_address_of_" #symbol "\n"           \
          ".hidden vitrine_tls_address_of_" #symbol "\n"          \
          ".type vitrine_tls_address_of_" #symbol ",@function\n"  \
          "vitrine_tls_address_of_" #symbol ":\n"                 \
          ".cfi_startproc\n"                                      \
          "subq $8, %rsp\n"                                       \
          ".cfi_adjust_cfa_offset 8\n"                            \
          "leaq " name "@tlsdesc(%rip), %rax\n"                   \
          "call *" name "@tlscall(%rax)\n"                        \
          "addq %fs:0, %rax\n"                                    \
          "addq $8, %rsp\n"                                       \
          ".cfi_adjust_cfa_offset -8\n"                           \
          "ret\n"                                                 \
          ".cfi_endproc\n"                                        \
          ".size vitrine_tls_address_of_" #symbol ", . - vitrine_tls_address_of_" #symbol "\n" \
          ".popsection\n")
// clang-format on
// NOLINTEND(bugprone-macro-parentheses)
VITRINE_TLS_ACCESSOR(vitrine_labels_thread)
VITRINE_TLS_ACCESSOR(custom_labels_current_set)
VITRINE_TLS_ACCESSOR(custom_labels_thread_local_data)
VITRINE_TLS_ACCESSOR(otel_thread_ctx_v1)

#else
#define VITRINE_TLS_ADDRESS(symbol) (static_cast<void*>(&(symbol)))
#endif

namespace vitrine::publish {

// The running thread's state: found by one TLS access, through the model the build is meant for.

using labels::detail::has_arena;
using labels::detail::Thread;
using labels::detail::vitrine_labels_thread;
using labels::detail::Words;

inline Thread& thread() noexcept {
  return *static_cast<Thread*>(VITRINE_TLS_ADDRESS(vitrine_labels_thread));
}

/// The same, with one call of the TLS descriptor's function: gcc otherwise calls it again instead of
/// keeping its result.
inline Thread& thread_once() noexcept {
  Thread* self = &thread();
#if !VITRINE_PUBLISH_STATIC
  __asm__("" : "+r"(self));
#endif
  return *self;
}

/// What distinguishes the running thread from other living threads.
inline const void* thread_pointer() noexcept {
#if defined(__x86_64__)
  const void* pointer = nullptr;
  __asm__("{movq %%fs:0, %0|mov %0, qword ptr fs:[0]}" : "=r"(pointer));
  return pointer;
#else
  return __builtin_thread_pointer();
#endif
}

/// Whether the end of this thread will be seen.
bool handles_exit() noexcept;

/// Registers what runs at fork and at the end of a thread, if that failed when the library was
/// loaded. Not in signal handlers.
void handle_forks_and_exits() noexcept;

/// Gives the thread an arena at its first use. Null: no memory, or the thread is exiting.
Arena* first_use(Thread& thread) noexcept;

/// Whether the thread's labels were taken down because it ends.
bool exiting(const Thread& thread) noexcept;

/// The arena of the running thread, or null where `first_use` returns null.
inline Arena* arena_of(Thread& thread) noexcept {
  return has_arena(thread) ? static_cast<Arena*>(thread.arena) : first_use(thread);
}

}  // namespace vitrine::publish
