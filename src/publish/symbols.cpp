#include "publish/symbols.hpp"

#include <vitrine/labels.hpp>

#include "publish/thread.hpp"

// Thread-local names for parts of one object cannot be said in C++. "R": the linker keeps the
// section though nothing in the program refers to it.
// clang-format off
#define VITRINE_TLS_NAME(name, size) \
  ".globl " name "\n"                \
  ".type " name ", @object\n"        \
  ".size " name ", " size "\n"       \
  name ":\n"

__asm__(
    ".pushsection .tbss.vitrine_labels,\"awTR\",@nobits\n"
    ".balign 32\n"
    VITRINE_TLS_NAME("vitrine_labels_thread", "32")
#if VITRINE_PUBLISH_ABI == 0
    VITRINE_TLS_NAME("custom_labels_thread_local_data", "16")
    ".zero 32\n"
#else
#if VITRINE_PUBLISH_OTEL
    VITRINE_TLS_NAME("otel_thread_ctx_v1", "8")
#endif
    ".zero 8\n"
    VITRINE_TLS_NAME("custom_labels_current_set", "8")
    ".zero 24\n"
#endif
    ".popsection\n");
// clang-format on

extern "C" {
extern const std::uint32_t custom_labels_abi_version
    __attribute__((visibility("default"), used, retain)) = VITRINE_PUBLISH_ABI;
}

#if VITRINE_TLSDESC_BY_ASM && defined(__x86_64__)
VITRINE_DEFINE_TLS_ACCESSOR(vitrine_labels_thread);
#if VITRINE_PUBLISH_ABI == 0
VITRINE_DEFINE_TLS_ACCESSOR(custom_labels_thread_local_data);
#else
VITRINE_DEFINE_TLS_ACCESSOR(custom_labels_current_set);
#if VITRINE_PUBLISH_OTEL
VITRINE_DEFINE_TLS_ACCESSOR(otel_thread_ctx_v1);
#endif
#endif
#endif

namespace vitrine::labels {

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

}  // namespace vitrine::labels
