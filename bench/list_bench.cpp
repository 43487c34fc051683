// Listing the probes of a file: `vitrine probes` beside `readelf -n` and `bpftrace -l`, as whole
// processes, by turns. Of libc (which has none on Debian), libstdc++ (three), and a program of 50 MB
// with 20,000 sites of 4,000 probes that is made here.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "process.hpp"

namespace {

using bench::median, bench::run, bench::Words;

struct Tool {
  std::string name;
  Words words;
  int every = 1;  ///< runs in each n-th round: some take a second
  std::vector<double> elapsed, processor;
};

void compare(const std::string& title, const std::string& file, int rounds) {
  std::vector<Tool> tools{
      {"vitrine probes", {VITRINE, "probes", file}, 1, {}, {}},
      {"vitrine probes --sites", {VITRINE, "probes", "--sites", file}, 1, {}, {}},
      {"vitrine probes --json", {VITRINE, "probes", "--json", file}, 1, {}, {}},
      {"readelf -n", {"readelf", "-n", file}, 1, {}, {}},
      {"bpftrace -l", {"bpftrace", "-l", "usdt:" + file + ":*"}, 10, {}, {}}};
  // In another order each time: what ran just before has the processor's caches.
  std::vector<std::size_t> order{0, 1, 2, 3, 4};
  std::mt19937 random(1);
  for (int round = -1; round < rounds; ++round) {  // the first warms the page cache
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t position : order) {
      Tool& tool = tools[position];
      if (round % tool.every != 0 && round >= 0) continue;
      const auto cost = run(tool.words);
      if (round < 0 || !cost) continue;
      tool.elapsed.push_back(cost->elapsed);
      tool.processor.push_back(cost->processor);
    }
  }
  std::printf("%s\n  %-24s %11s %11s %20s\n", title.c_str(), "", "elapsed", "processor",
              "x vitrine probes");
  for (Tool& tool : tools) {
    if (tool.elapsed.empty())
      std::printf("  %-24s failed\n", tool.name.c_str());
    else
      std::printf("  %-24s %8.2f ms %8.2f ms %9.2f %10.2f\n", tool.name.c_str(),
                  median(tool.elapsed), median(tool.processor),
                  median(tool.elapsed) / median(tools[0].elapsed),
                  median(tool.processor) / median(tools[0].processor));
  }
}

/// Functions of 64 bytes with a probe each, as <sys/sdt.h> announces them, and 48 MB of data.
bool make_large(const std::string& directory) {
  const std::string source = directory + "/large.s";
  std::ofstream out(source);
  out << ".section .note.GNU-stack,\"\",@progbits\n.text\n.globl main\nmain: ret\n";
  const char* arguments[] = {"-4@%edi 8@%rsi", "8@%rax", "-4@-24(%rbp) 8@8(%rsp) -4@$7", "",
                             "8@(%rdi,%rsi,8) 4@%ecx"};
  for (int i = 0; i < 20'000; ++i)
    out << ".type work_" << i << ",@function\nwork_" << i
        << ": .skip 62,0x90\n990: nop\nret\n.size work_" << i << ",.-work_" << i
        << "\n.pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n.4byte 992f-991f,994f-993f,3\n"
           "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b,_.stapsdt.base,0\n"
        << ".asciz \"service" << i % 20 << "\"\n.asciz \"request_" << i % 4'000 << "\"\n.asciz \""
        << arguments[i % 5] << "\"\n994: .balign 4\n.popsection\n";
  out << ".section .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n.weak _.stapsdt.base\n"
         ".hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n.size _.stapsdt.base,1\n"
         ".section .rodata\n.fill 6000000,8,0x1234\n";
  out.close();
  return out && run({"gcc", "-o", directory + "/large", source});
}

}  // namespace

int main() {
  std::puts("Listing probes, whole processes by turns, medians");
  char name[] = "/tmp/vitrine-list-bench-XXXXXX";
  const std::string directory = ::mkdtemp(name);
  for (const char* library : {"libc.so.6", "libstdc++.so.6"}) {
    for (const char* place : {"/lib/x86_64-linux-gnu/", "/lib/aarch64-linux-gnu/", "/lib64/"}) {
      if (access((std::string(place) + library).c_str(), R_OK) != 0) continue;
      // A copy: bpftrace takes no path with a plus sign.
      const std::string copy = directory + "/copy.so";
      std::filesystem::copy_file(std::string(place) + library, copy,
                                 std::filesystem::copy_options::overwrite_existing);
      compare(library, copy, 100);
      break;
    }
  }
  if (make_large(directory))
    compare("a program of " +
                std::to_string(std::filesystem::file_size(directory + "/large") / 1'000'000) +
                " MB with 20,000 sites",
            directory + "/large", 30);
  else
    std::puts("the large program could not be made: it needs gcc for x86-64 or aarch64");
  std::filesystem::remove_all(directory);
  std::puts("\nWanted: faster than readelf -n and bpftrace -l.");
}
