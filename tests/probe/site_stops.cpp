#include "site_stops.hpp"

#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "elf/file.hpp"

namespace vitrine::test {
namespace {

/// What a file descriptor reads at an offset: a file, or /proc/PID/mem.
class DescriptorMemory final : public Memory {
 public:
  DescriptorMemory(const std::string& path, int flags) : file_(::open(path.c_str(), flags)) {}
  ~DescriptorMemory() override { ::close(file_); }

  void read(std::span<ReadRequest> requests) override {
    for (ReadRequest& request : requests) {
      const ssize_t got = ::pread(file_, request.into.data(), request.into.size(),
                                  static_cast<off_t>(request.address));
      request.got = got < 0 ? 0 : static_cast<std::size_t>(got);
    }
  }
  void write(Address address, unsigned char byte) const {
    EXPECT_EQ(::pwrite(file_, &byte, 1, static_cast<off_t>(address)), 1);
  }

 private:
  int file_;
};

/// Where the program's file begins in its memory; 0 where addresses are absolute.
Address load_bias(pid_t pid, const ProbedProgram& program) {
  if (program.elf().type == ET_EXEC) return 0;
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  const std::string path = std::filesystem::canonical(program.path());
  for (std::string line; std::getline(maps, line);)
    if (line.ends_with(path)) return std::stoull(line, nullptr, 16);
  ADD_FAILURE() << "the program does not map " << path;
  return 0;
}

probe::Registers read_registers(pid_t pid) {
  probe::Registers registers;
  std::array<std::uint64_t, 64> words{};
  iovec into{words.data(), sizeof words};
  EXPECT_EQ(::ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &into), 0);
#if defined(__x86_64__)
  std::copy_n(words.begin(), 21, registers.words.begin());
  registers.words[VITRINE_THREAD_POINTER] = words[21];  // fs_base
#endif
  return registers;
}

#if defined(__x86_64__)
constexpr std::size_t instruction_pointer = 16;
constexpr unsigned char breakpoint = 0xcc;
#endif

}  // namespace

ProbedProgram::ProbedProgram(const std::string& path)
    : path_(path), memory_(std::make_unique<DescriptorMemory>(path, O_RDONLY)) {
  auto elf = elf::read_file(*memory_);
  if (!elf) {
    ADD_FAILURE() << path << ": " << elf.error().message;
    return;
  }
  elf_ = std::move(*elf);
  const elf::Section* section = elf_.find(".note.stapsdt");
  if (section == nullptr) {
    ADD_FAILURE() << path << " has no notes";
    return;
  }
  auto bytes = elf::read_section(*memory_, elf_, *section, 1U << 24);
  if (!bytes) return;
  section_ = std::move(bytes->bytes);
  notes_ = probe::decode_stapsdt_notes(section_, elf_.encoding);
  EXPECT_TRUE(notes_.problems.list.empty());
}

ProbedProgram::~ProbedProgram() = default;

std::string run_with_stops(const ProbedProgram& program, const AtStop& at_stop) {
  int output[2];
  EXPECT_EQ(::pipe(output), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(output[1], STDOUT_FILENO);
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::execl(program.path().c_str(), program.path().c_str(), nullptr);
    ::_exit(127);
  }
  ::close(output[1]);
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);  // at its first instruction
  ::ptrace(PTRACE_SETOPTIONS, pid, nullptr, PTRACE_O_EXITKILL);
  const Address bias = load_bias(pid, program);
  DescriptorMemory memory("/proc/" + std::to_string(pid) + "/mem", O_RDWR);
  std::multimap<Address, const probe::StapsdtNote*> places;
  for (const probe::StapsdtNote& note : program.notes()) {
    places.emplace(note.address + bias, &note);
    memory.write(note.address + bias, breakpoint);  // in the place of a nop: nothing to step over
  }
  while (::ptrace(PTRACE_CONT, pid, nullptr, nullptr) == 0 && ::waitpid(pid, &status, 0) == pid &&
         WIFSTOPPED(status)) {
    if (WSTOPSIG(status) != SIGTRAP) {
      ADD_FAILURE() << "the program got signal " << WSTOPSIG(status);
      ::kill(pid, SIGKILL);
      continue;
    }
    probe::Registers registers = read_registers(pid);
    const Address place = registers.words[instruction_pointer] - 1;
    registers.words[VITRINE_PROBE_ADDRESS] = place;
    for (auto [at, end] = places.equal_range(place); at != end; ++at)
      at_stop(*at->second, registers, memory);
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << program.path();
  std::string printed(1 << 20, '\0');
  std::size_t size = 0;
  for (ssize_t got = 0;
       (got = ::read(output[0], printed.data() + size, printed.size() - size)) > 0;)
    size += static_cast<std::size_t>(got);
  ::close(output[0]);
  printed.resize(size);
  return printed;
}

}  // namespace vitrine::test
