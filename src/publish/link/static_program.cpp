// A static program may load a shared library with labels, by dlopen. They work inside it, but it has no list of
// its modules that could be read from outside: no reader finds them. The library reports it when it is loaded.
#include <link.h>
#include <sys/auxv.h>
#include <unistd.h>

namespace vitrine::publish {
namespace {

/// No interpreter is named in it. (A program that the loader was called with has its own headers here.)
bool program_is_static() noexcept {
  const auto* header = reinterpret_cast<const ElfW(Phdr)*>(getauxval(AT_PHDR));
  if (header == nullptr) return false;
  const unsigned long count = getauxval(AT_PHNUM);
  for (unsigned long i = 0; i < count; ++i) {
    if (header[i].p_type == PT_INTERP) return false;
  }
  return true;
}

__attribute__((constructor)) void warn_static_program() {
  static const char message[] =
      "vitrine: labels of this program cannot be read from outside: it is static, and loaded this "
      "library\n  link "
      "the program with vitrine::publish, or make it dynamic\n";
  if (program_is_static() && write(STDERR_FILENO, message, sizeof message - 1) < 0) return;
}

}  // namespace
}  // namespace vitrine::publish
