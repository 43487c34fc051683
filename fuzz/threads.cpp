// What a C library and the kernel keep in a process about its threads: {u64 where a thread structure is
// said to be}{memory}.
#include "input.hpp"
#include "target/libc.hpp"
#include "target/modules.hpp"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Address said = 0;
  if (size < sizeof said) return 0;
  std::memcpy(&said, data, sizeof said);
  const auto bytes = fuzz::bytes(data + sizeof said, size - sizeof said);
  fuzz::RegionMemory memory(fuzz::base, bytes);
  const Address end = fuzz::base + bytes.size();

  const std::map<pid_t, target::ThreadId> wanted{{42, {42, 1}}, {43, {43, 2}}};
  const std::vector<target::RobustThread> threads{{said, 42}, {said + 0x300, 43}, {said * 2, 44}};
  for (const auto machine : {Machine::x86_64, Machine::aarch64}) {
    std::size_t reads_left = 1000, candidates_left = 1000;
    for (const Address start : {said, fuzz::base + 200, fuzz::base})
      fuzz::require(target::musl_ring(memory, machine, start, reads_left).pointers.size() <=
                    bytes.size() / 8 + 1);
    (void)target::musl_thread_in(memory, machine, {fuzz::base, end}, wanted, said % 4,
                                 candidates_left);
    fuzz::require(reads_left <= 1000 && candidates_left <= 1000);
    const target::ThreadLayout::Glibc layout{said % 2048, said / 2048 % 4096};
    for (const auto& known : {std::optional<target::ThreadLayout::Glibc>(), std::optional(layout)})
      fuzz::require(target::glibc_thread_pointers(memory, machine, threads, known).size() ==
                    threads.size());
  }
  if (const auto auxv = target::auxv_on_stack(memory, said))
    fuzz::require(auxv->size() % 16 == 0 && auxv->size() <= bytes.size());
  return 0;
}
