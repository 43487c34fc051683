#include "unwind/sampled_stacks.hpp"

#include <elfutils/libdwfl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>

#include "base/limits.hpp"
#include "unwind/frame.hpp"

namespace vitrine::test {
namespace {

constexpr pid_t any_id = 1;

/// ptrace has the kernel's order, and some more behind it.
unwind::Registers registers_of(const user_regs_struct& from) {
  std::array<std::uint64_t, sizeof from / sizeof(std::uint64_t)> words{};
  std::memcpy(words.data(), &from, sizeof from);
  return unwind::from_pt_regs(Machine::x86_64, words).value();
}

}  // namespace

std::optional<SampledStack> sample_thread(pid_t tid, std::size_t most) {
  // Attached for this moment alone: between samples its signals are nobody else's.
  if (ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) return std::nullopt;
  int status = 0;
  if (ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) != 0 ||
      waitpid(tid, &status, __WALL) != tid || !WIFSTOPPED(status))
    return std::nullopt;
  const int signal = status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
  SampledStack sample;
  user_regs_struct registers{};
  ptrace(PTRACE_GETREGS, tid, nullptr, &registers);
  sample.registers = registers_of(registers);
  sample.bytes.resize(most);
  const iovec into{sample.bytes.data(), most};
  // Page by page, so that the end of the stack's mapping ends the copy.
  std::vector<iovec> pages;
  for (std::size_t at = 0; at < most;) {
    const std::size_t room = 4096 - (registers.rsp + at) % 4096;
    const std::size_t size = std::min(room, most - at);
    pages.push_back({reinterpret_cast<void*>(registers.rsp + at), size});
    at += size;
  }
  const ssize_t got = process_vm_readv(tid, &into, 1, pages.data(), pages.size(), 0);
  sample.bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  ptrace(PTRACE_DETACH, tid, nullptr, signal);
  return sample;
}

struct DwflUnwinder::State {
  Dwfl* dwfl = nullptr;
  const SampledStack* sample = nullptr;
  std::vector<unwind::Frame>* frames = nullptr;

  static State& of(void* argument) { return *static_cast<State*>(argument); }

  static pid_t next_thread(Dwfl*, void* argument, void** thread) {
    if (*thread != nullptr) return 0;
    *thread = argument;
    return any_id;
  }
  static bool get_thread(Dwfl*, pid_t, void* argument, void** thread) {
    *thread = argument;
    return true;
  }
  static bool read_memory(Dwfl*, Dwarf_Addr address, Dwarf_Word* word, void* argument) {
    std::uint64_t value = 0;
    if (!of(argument).sample->stack().read(address, value)) return false;
    *word = value;
    return true;
  }
  static bool set_registers(Dwfl_Thread* thread, void* argument) {
    const auto& words = of(argument).sample->registers.words;
    std::array<Dwarf_Word, 17> numbered{};
    std::copy_n(words.begin(), numbered.size(), numbered.begin());
    dwfl_thread_state_register_pc(thread, words[16]);
    return dwfl_thread_state_registers(thread, 0, numbered.size(), numbered.data());
  }
  static int take_frame(Dwfl_Frame* frame, void* argument) {
    Dwarf_Addr pc = 0;
    bool is_activation = false;
    if (!dwfl_frame_pc(frame, &pc, &is_activation)) return DWARF_CB_ABORT;
    auto& frames = *of(argument).frames;
    frames.push_back({pc, unwind::no_region, !is_activation});
    return frames.size() < limits::frames ? DWARF_CB_OK : DWARF_CB_ABORT;
  }
};

DwflUnwinder::DwflUnwinder(pid_t pid) : state_(std::make_unique<State>()) {
  static const Dwfl_Callbacks files{dwfl_linux_proc_find_elf, dwfl_standard_find_debuginfo, nullptr,
                                    nullptr};
  static const Dwfl_Thread_Callbacks threads{
      State::next_thread,   State::get_thread, State::read_memory,
      State::set_registers, nullptr,           nullptr};
  state_->dwfl = dwfl_begin(&files);
  dwfl_report_begin(state_->dwfl);
  dwfl_linux_proc_report(state_->dwfl, pid);
  dwfl_report_end(state_->dwfl, nullptr, nullptr);
  dwfl_attach_state(state_->dwfl, nullptr, pid, &threads, state_.get());
}

DwflUnwinder::~DwflUnwinder() {
  dwfl_end(state_->dwfl);
}

bool DwflUnwinder::unwind(const SampledStack& sample, std::vector<unwind::Frame>& frames) {
  frames.clear();
  state_->sample = &sample;
  state_->frames = &frames;
  return dwfl_getthread_frames(state_->dwfl, any_id, State::take_frame, state_.get()) == 0;
}

bool DwflUnwinder::has_rules(const unwind::Frame& frame) {
  const Dwarf_Addr at = frame.is_return_address ? frame.pc - 1 : frame.pc;
  Dwfl_Module* const module = dwfl_addrmodule(state_->dwfl, at);
  if (module == nullptr) return false;
  for (const auto cfi_of : {dwfl_module_eh_cfi, dwfl_module_dwarf_cfi}) {
    Dwarf_Addr bias = 0;
    Dwarf_CFI* const cfi = cfi_of(module, &bias);
    Dwarf_Frame* rules = nullptr;
    if (cfi == nullptr || dwarf_cfi_addrframe(cfi, at - bias, &rules) != 0) continue;
    free(rules);
    return true;
  }
  return false;
}

std::vector<pid_t> threads_of(pid_t pid) {
  std::vector<pid_t> threads;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task"))
    threads.push_back(std::stoi(entry.path().filename()));
  return threads;
}

}  // namespace vitrine::test
