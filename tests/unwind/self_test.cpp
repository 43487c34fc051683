// This very program, against the C library's own
// backtrace(3).
#include <execinfo.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <ucontext.h>

#include <algorithm>
#include <thread>

#include "base/limits.hpp"
#include "sandbox/files.hpp"
#include "target/maps.hpp"
#include "unwind/frame_table.hpp"
#include "unwind/unwinder.hpp"

namespace vitrine::unwind {
namespace {

struct Capture {
  Registers registers;
  std::vector<std::byte> stack = std::vector<std::byte>(limits::stack_copy);
  std::vector<void*> trace = std::vector<void*>(limits::frames);
  Address stack_end = 0;
};
Capture* capture = nullptr;

void on_signal(int, siginfo_t*, void* context) {
  const mcontext_t& from = static_cast<ucontext_t*>(context)->uc_mcontext;
  auto& words = capture->registers.words;
#if defined(__x86_64__)
  constexpr int order[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                           REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                           REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
  for (std::size_t n = 0; n < std::size(order); ++n)
    words[n] = static_cast<std::uint64_t>(from.gregs[order[n]]);
#else
  capture->registers.machine = Machine::aarch64;
  std::copy(std::begin(from.regs), std::end(from.regs), words.begin());
  words[31] = from.sp;
  words[32] = from.pc;
#endif
  const Address sp = capture->registers.sp();
  capture->stack.resize(std::min<std::size_t>(capture->stack.size(), capture->stack_end - sp));
  std::memcpy(capture->stack.data(), reinterpret_cast<const void*>(sp), capture->stack.size());
  capture->trace.resize(static_cast<std::size_t>(
      backtrace(capture->trace.data(), static_cast<int>(capture->trace.size()))));
}

volatile int kept;

[[gnu::noinline]] void dive(int depth) {
  char room[72];
  std::memset(room, depth, sizeof room);
  if (depth == 0) {
    raise(SIGUSR1);
  } else {
    dive(depth - 1);
  }
  kept = room[depth % 72];
}

/// By this very name: qemu-user replaces the text of no other.
std::vector<target::Mapping> own_mappings() {
  std::vector<target::Mapping> mappings;
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[4096];
  while (fgets(line, sizeof line, maps) != nullptr) {
    const std::string_view text(line, std::strcspn(line, "\n"));
    if (auto mapping = target::parse_mapping(text)) mappings.push_back(std::move(*mapping));
  }
  fclose(maps);
  return mappings;
}

/// End of the mapping that a local variable is in.
Address end_of_stack() {
  const int mark = 0;
  const auto here = reinterpret_cast<Address>(&mark);
  for (const target::Mapping& mapping : own_mappings())
    if (mapping.start <= here && here < mapping.end) return mapping.end;
  return 0;
}

CodeMap own_code() {
  std::vector<Region> regions;
  for (const target::Mapping& mapping : own_mappings()) {
    if (!mapping.executable) continue;
    Region region{mapping.start, mapping.end, 0, nullptr};
    const int fd = mapping.inode != 0 ? ::open(mapping.name.c_str(), O_RDONLY) : -1;
    if (auto file = sandbox::FileMemory::from(FileDescriptor(fd)))
      if (auto table = FrameTable::open(std::move(*file))) {
        region.rules = *table;
        region.bias = bias_of((*table)->segments(), mapping.start, mapping.offset).value();
      }
    regions.push_back(std::move(region));
  }
  return CodeMap(std::move(regions));
}

void capture_and_compare() {
  Capture taken;
  taken.stack_end = end_of_stack();
  ASSERT_NE(taken.stack_end, 0U);
  capture = &taken;
  struct sigaction action {
  }, before{};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGUSR1, &action, &before);
  dive(30);
  sigaction(SIGUSR1, &before, nullptr);

  Unwinder unwinder(own_code());
  std::vector<Frame> frames;
  const End end = unwinder.unwind(taken.registers, {taken.registers.sp(), taken.stack}, frames);
  std::vector<Address> ours, theirs;
  for (const Frame& frame : frames) ours.push_back(frame.pc);
  for (void* pc : taken.trace) theirs.push_back(reinterpret_cast<Address>(pc));
  // Its own begins with the handler and the trampoline.
  theirs.erase(theirs.begin(), std::find(theirs.begin(), theirs.end(), taken.registers.pc()));
  EXPECT_GT(ours.size(), 31U);
  EXPECT_EQ(ours, theirs);
  EXPECT_EQ(end, End::outermost);
}

TEST(Self, MainThreadIsUnwoundToItsStart) {
  capture_and_compare();
}

TEST(Self, ThreadIsUnwoundToItsStart) {
  std::thread(capture_and_compare).join();
}

}  // namespace
}  // namespace vitrine::unwind
