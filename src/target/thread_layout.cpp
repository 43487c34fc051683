#include "target/thread_layout.hpp"

#include <elf.h>

#include "target/glibc.hpp"

namespace vitrine::target {

ThreadLayout thread_layout(std::span<const Module> modules, const Glibc* glibc) {
  ThreadLayout layout;
  if (glibc != nullptr) layout.glibc = glibc->thread();
  for (const Module& module : modules)
    if (module.image.find(PT_TLS) != nullptr) ++layout.tls_modules;
  return layout;
}

}  // namespace vitrine::target
