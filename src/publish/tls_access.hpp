// VITRINE_TLS_ADDRESS(symbol): the address of a TLS variable on this thread.
//
// Executables: whatever the compiler emits (static TLS). Libraries must go through a TLS descriptor
// (the ABI asks for it). gcc has -mtls-dialect for that; clang before 18 has no such switch on
// x86-64, so there the canonical instruction sequence is written out.
#pragma once

#if VITRINE_TLSDESC_BY_ASM && defined(__x86_64__)

// The descriptor's function keeps every register but rax. It is called from a function of its own
// because a call in inline assembly would overwrite its caller's red zone.
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
VITRINE_TLS_ACCESSOR(vitrine_labels_thread)
VITRINE_TLS_ACCESSOR(custom_labels_current_set)
VITRINE_TLS_ACCESSOR(custom_labels_thread_local_data)
VITRINE_TLS_ACCESSOR(otel_thread_ctx_v1)

#else
#define VITRINE_TLS_ADDRESS(symbol) static_cast<void*>(&symbol)
#endif
