#include "bpf/kernel_text.hpp"

#include <cstdlib>
#include <fstream>
#include <string>

namespace vitrine::bpf {

// A symbol of libbpf's kind (__ksym) would do, but libbpf then reads all of the file at each load,
// by scanf, whether the program that wants it is loaded or not.
KernelText scheduler_text() {
  KernelText text;
  std::ifstream symbols("/proc/kallsyms");
  for (std::string line; (text.start == 0 || text.end == 0) && std::getline(symbols, line);) {
    if (line.ends_with(" __sched_text_start"))
      text.start = std::strtoull(line.c_str(), nullptr, 16);
    else if (line.ends_with(" __sched_text_end"))
      text.end = std::strtoull(line.c_str(), nullptr, 16);
  }
  return text.start < text.end ? text : KernelText{};
}

}  // namespace vitrine::bpf
