// What the shared libraries would need of libstdc++, so that they need libc alone, and C programs, of
// musl too, can load them: strings, and functions under the names that compilers and headers call them
// by. None is exported (without_libstdcxx.map).
#include <dlfcn.h>
#include <sched.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

template class std::basic_string<char>;

#define VITRINE_NAMED(name) __asm__(name) __attribute__((visibility("hidden")))

extern "C" {

// Memory that these allocate never leaves the library, nor do they release any that comes from outside.
void* vitrine_new(std::size_t) VITRINE_NAMED("_Znwm");
void vitrine_delete(void*, std::size_t) noexcept VITRINE_NAMED("_ZdlPvm");
void vitrine_delete_unsized(void*) noexcept VITRINE_NAMED("_ZdlPv");  // clang before 19
int vitrine_guard_acquire(std::uint64_t*) noexcept VITRINE_NAMED("__cxa_guard_acquire");
void vitrine_guard_release(std::uint64_t*) noexcept VITRINE_NAMED("__cxa_guard_release");

void* vitrine_new(std::size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) std::abort();  // without exceptions there is nothing else
  return memory;
}

void vitrine_delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

void vitrine_delete_unsized(void* memory) noexcept {
  std::free(memory);
}

/// The Itanium C++ ABI, 3.3.3: the first byte says that the variable is made. The second, ours, that a
/// thread makes it now.
int vitrine_guard_acquire(std::uint64_t* guard) noexcept {
  auto* const bytes = reinterpret_cast<unsigned char*>(guard);
  while (__atomic_load_n(&bytes[0], __ATOMIC_ACQUIRE) == 0) {
    if (__atomic_exchange_n(&bytes[1], static_cast<unsigned char>(1), __ATOMIC_ACQ_REL) == 0) {
      if (__atomic_load_n(&bytes[0], __ATOMIC_ACQUIRE) == 0) return 1;
      __atomic_store_n(&bytes[1], static_cast<unsigned char>(0), __ATOMIC_RELEASE);
      break;
    }
    sched_yield();
  }
  return 0;
}

void vitrine_guard_release(std::uint64_t* guard) noexcept {
  auto* const bytes = reinterpret_cast<unsigned char*>(guard);
  __atomic_store_n(&bytes[0], static_cast<unsigned char>(1), __ATOMIC_RELEASE);
  __atomic_store_n(&bytes[1], static_cast<unsigned char>(0), __ATOMIC_RELEASE);
}

// The end of a clean-up while an exception passes. The unwinder is the one that runs it, and that is the
// program's: libgcc_s, or one linked into the program, which exports it not (-static-libgcc). But it exports what
// we refer to of libstdc++; caught and thrown again, the exception goes on. Nobody ends that catch, so
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

// What headers call where they would throw.
#define VITRINE_NO_THROW(function, name)                     \
  [[noreturn]] void function() noexcept VITRINE_NAMED(name); \
  void function() noexcept {                                 \
    std::abort();                                            \
  }
VITRINE_NO_THROW(vitrine_bad_alloc, "_ZSt17__throw_bad_allocv")
VITRINE_NO_THROW(vitrine_bad_array, "_ZSt28__throw_bad_array_new_lengthv")
VITRINE_NO_THROW(vitrine_logic_error, "_ZSt19__throw_logic_errorPKc")
VITRINE_NO_THROW(vitrine_length_error, "_ZSt20__throw_length_errorPKc")
VITRINE_NO_THROW(vitrine_out_of_range, "_ZSt20__throw_out_of_rangePKc")
VITRINE_NO_THROW(vitrine_out_of_range_format, "_ZSt24__throw_out_of_range_fmtPKcz")
VITRINE_NO_THROW(vitrine_system_error, "_ZSt20__throw_system_errori")

}  // extern "C"
