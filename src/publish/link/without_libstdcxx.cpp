// What the shared libraries would need of libstdc++ and libgcc_s, so that they need libc alone, and C
// programs, of musl too, can load them. None is exported (library.map.in).
#include <dlfcn.h>

#include <cstdlib>

#define VITRINE_NAMED(name) __asm__(name) __attribute__((visibility("hidden")))

extern "C" {

// The end of a clean-up while an exception passes. The unwinder is the one that runs it, and that is the
// program's: libgcc_s, or one linked into the program, which exports it not (-static-libgcc). But it exports what
// we refer to of libstdc++; caught and thrown again, the exception goes on. That catch does not end, so
// that the exception's memory stays.
void vitrine_resume(void*) VITRINE_NAMED("_Unwind_Resume");
void* vitrine_dlsym(void*, const char*) noexcept __asm__("dlsym") __attribute__((weak));
void* vitrine_begin_catch(void*) noexcept __asm__("__cxa_begin_catch") __attribute__((weak));
[[noreturn]] void vitrine_rethrow() __asm__("__cxa_rethrow") __attribute__((weak));

void vitrine_resume(void* exception) {
  if (vitrine_dlsym != nullptr) {
    void* const theirs = vitrine_dlsym(RTLD_DEFAULT, "_Unwind_Resume");
    if (theirs != nullptr) reinterpret_cast<void (*)(void*)>(theirs)(exception);
  }
  if (vitrine_begin_catch == nullptr || vitrine_rethrow == nullptr) std::abort();
  vitrine_begin_catch(exception);
  vitrine_rethrow();
}

}  // extern "C"
