#include "target/thread_layout.hpp"

#include <elf.h>

#include "target/glibc.hpp"

namespace vitrine::target {

ThreadLayout thread_layout(std::span<const Module> modules, const Glibc* glibc) {
  ThreadLayout layout;
  if (glibc != nullptr) {
    layout.glibc = glibc->thread();
    return layout;
  }
  for (const Module& module : modules)
    for (const Elf64_Phdr& segment : module.image.segments)
      if (segment.p_type == PT_LOAD && (segment.p_flags & PF_W) != 0)
        layout.data.push_back({module.image.bias + segment.p_vaddr,
                               module.image.bias + segment.p_vaddr + segment.p_memsz});
  return layout;
}

}  // namespace vitrine::target
