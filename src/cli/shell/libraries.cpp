#include "cli/shell/libraries.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
// Made by cmake/LazyLibraries.cmake, for the command alone.
extern const char vitrine_lazy_names[] __attribute__((weak, visibility("hidden")));
extern void* vitrine_lazy_slots[] __attribute__((weak, visibility("hidden")));

/// Where a stub leads whose library was not loaded: a defect.
[[noreturn]] void vitrine_library_missing();
void vitrine_library_missing() {
  std::fputs("vitrine: a library is used before it is loaded\n", stderr);
  std::abort();
}
}

namespace vitrine::cli {

Result<void> load_libraries() {
  constexpr char begins_library = '\1';
  if (vitrine_lazy_names == nullptr || vitrine_lazy_slots[0] != nullptr) return {};
  const auto failed = [](const char* library) {
    const char* const reason = ::dlerror();
    return fail(ErrorCode::unsupported,
                fmt::format("cannot load {}: {}", library, reason == nullptr ? "" : reason),
                "install the packages that vitrine depends on");
  };
  const char* library = "";
  void* handle = nullptr;
  std::size_t slot = 0;
  void* first = nullptr;
  for (const char* at = vitrine_lazy_names; *at != '\0';) {
    const char* const name = at;
    at += std::strlen(at) + 1;
    if (*name == begins_library) {
      library = name + 1;
      handle = ::dlopen(library, RTLD_LAZY | RTLD_LOCAL);
      if (handle == nullptr) return failed(library);
      continue;
    }
    const char* const version = at;
    at += std::strlen(at) + 1;
    void* const function =
        *version == '\0' ? ::dlsym(handle, name) : ::dlvsym(handle, name, version);
    if (function == nullptr) return failed(library);
    if (slot == 0)
      first = function;
    else
      vitrine_lazy_slots[slot] = function;
    ++slot;
  }
  vitrine_lazy_slots[0] = first;  // last: where it is set, all are
  return {};
}

}  // namespace vitrine::cli
