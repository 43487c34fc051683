#include "publish/link/symbols.hpp"

#include <vitrine/labels.hpp>

#include "publish/base/thread.hpp"

// C++ cannot express thread-local names for parts of one object, so assembler defines them. "R": the
// linker keeps the section though nothing in the program refers to it.
//
// Link-time optimisation decides where the assembler text is placed. Symbols that assembler outside functions
// defines are in LLVM's table of a module's symbols, but not as thread-local ones, and lld refuses
// those for the references to vitrine_labels_thread ("TLS attribute mismatch"): it is defined inside a
// function, which is never called. The public names, to which nothing in a program refers, must be in
// that table, or lld exports none of them. gcc has no such table, but may put what is outside
// functions into another object than them.
//
// Aligned to 16, which the one store of 16 bytes needs, and to no more: 48 is a multiple of it, so that the
// linker leaves no gap in the block of a program that has no other thread-local variables, and on aarch64 the block
// begins where the ABI's 16 bytes end. Some readers know of neither (docs/formats/tls.md, "Executables").
// clang-format off
#define VITRINE_TLS_NAME(name, offset, size)      \
  ".globl " name "\n"                             \
  ".type " name ", @object\n"                     \
  ".size " name ", " size "\n"                    \
  ".set " name ", " VITRINE_DETAIL_THREAD_SYMBOL " + " offset "\n"
#if VITRINE_PUBLISH_ABI == 0
#define VITRINE_TLS_NAMES VITRINE_TLS_NAME("custom_labels_thread_local_data", "0", "16")
#elif VITRINE_PUBLISH_OTEL
#define VITRINE_TLS_NAMES                               \
  VITRINE_TLS_NAME("otel_thread_ctx_v1", "0", "8")      \
  VITRINE_TLS_NAME("custom_labels_current_set", "8", "8")
#else
#define VITRINE_TLS_NAMES VITRINE_TLS_NAME("custom_labels_current_set", "8", "8")
#endif
#ifdef __clang__
#define VITRINE_TLS_NAMES_INSIDE
__asm__(VITRINE_TLS_NAMES);
#else
#define VITRINE_TLS_NAMES_INSIDE VITRINE_TLS_NAMES
#endif

namespace vitrine::publish {
__attribute__((used, noinline)) static void define_thread_symbols() {
  __asm__(
    ".pushsection .tbss.vitrine_labels,\"awTR\",@nobits\n"
    ".balign 16\n"
    ".globl " VITRINE_DETAIL_THREAD_SYMBOL "\n"
    ".type " VITRINE_DETAIL_THREAD_SYMBOL ", @object\n"
    ".size " VITRINE_DETAIL_THREAD_SYMBOL ", 48\n"
    VITRINE_DETAIL_THREAD_SYMBOL ":\n"
    ".zero 48\n"
    VITRINE_TLS_NAMES_INSIDE
    ".popsection\n");
}
}  // namespace vitrine::publish
// clang-format on

extern "C" {
extern const std::uint32_t custom_labels_abi_version
    __attribute__((visibility("default"), used, retain)) = VITRINE_PUBLISH_ABI;
}

#if VITRINE_TLSDESC_BY_ASM && defined(__x86_64__)
VITRINE_DEFINE_TLS_ACCESSOR(vitrine_labels_thread, VITRINE_DETAIL_THREAD_SYMBOL);
#if VITRINE_PUBLISH_ABI == 0
VITRINE_DEFINE_TLS_ACCESSOR(custom_labels_thread_local_data, "custom_labels_thread_local_data");
#else
VITRINE_DEFINE_TLS_ACCESSOR(custom_labels_current_set, "custom_labels_current_set");
#if VITRINE_PUBLISH_OTEL
VITRINE_DEFINE_TLS_ACCESSOR(otel_thread_ctx_v1, "otel_thread_ctx_v1");
#endif
#endif
#endif

namespace vitrine::labels {
inline namespace VITRINE_DETAIL_ABI_NAMESPACE {

#if VITRINE_PUBLISH_STATIC

const void* slot_address() noexcept {
  return reinterpret_cast<const unsigned long long*>(&detail::vitrine_labels_thread) + 1;
}
const void* record_slot_address() noexcept {
  return VITRINE_PUBLISH_OTEL ? &detail::vitrine_labels_thread : nullptr;
}

#else

// By the public names, so that a library has the TLS descriptors for them that observers look for.
const void* slot_address() noexcept {
#if VITRINE_PUBLISH_ABI == 0
  return VITRINE_TLS_ADDRESS(custom_labels_thread_local_data);
#else
  return VITRINE_TLS_ADDRESS(custom_labels_current_set);
#endif
}

const void* record_slot_address() noexcept {
#if VITRINE_PUBLISH_ABI == 1 && VITRINE_PUBLISH_OTEL
  return VITRINE_TLS_ADDRESS(otel_thread_ctx_v1);
#else
  return nullptr;
#endif
}

#endif

}  // namespace VITRINE_DETAIL_ABI_NAMESPACE
}  // namespace vitrine::labels
