#include "target/process.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "bpf/wire/wire.h"
#include "target/mapped_files.hpp"
#include "target/modules.hpp"
#include "target/proc_file.hpp"
#include "target/threads.hpp"

namespace vitrine::target {
namespace {

constexpr std::size_t status_bytes = 16 * 1024;
constexpr std::size_t auxv_bytes = 16 * 1024;

tl::unexpected<Error> ended(pid_t pid) {
  return fail(ErrorCode::not_found, fmt::format("process {} has ended", pid));
}

tl::unexpected<Error> executes(pid_t pid) {
  return fail(ErrorCode::another_program, fmt::format("process {} executes another program", pid));
}

tl::unexpected<Error> none(pid_t pid) {
  return fail(ErrorCode::not_found, fmt::format("no such process: {}", pid),
              "`vitrine ps` lists processes that publish labels or a context");
}

// /proc has no such directory.
tl::unexpected<Error> not_shown(pid_t pid) {
  const FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  return process ? tl::unexpected<Error>(hidden_by_proc(pid)) : none(pid);
}

tl::unexpected<Error> withheld(std::string why) {
  return fail(ErrorCode::limit, std::move(why),
              "resume the process that serves this memory, or end the target");
}

// How reading a file below /proc/PID failed, as a fact about the process.
tl::unexpected<Error> explain(pid_t pid, int proc_dir, Error error) {
  if (error.code == ErrorCode::not_permitted)
    return tl::unexpected<Error>(access_refused(pid, proc_dir, "observe"));
  if (error.code == ErrorCode::not_found) return ended(pid);
  return fail_while(fmt::format("process {}", pid), std::move(error));
}

// An address without the bits that hold a tag.
Address untag_mask(const std::string& status) {
  if (native_machine == Machine::aarch64) return ~Address{0} >> 8;  // top byte ignore, MTE, HWASan
  const auto field = status_field(status, "untag_mask");
  return field ? std::strtoull(std::string(*field).c_str(), nullptr, 16) : ~Address{0};
}

bool holds(const AuxVector& auxv, std::uint64_t type, std::uint64_t value) {
  const auto entry = auxv.find(type);
  return entry != auxv.end() && entry->second == value;
}

// From the file, or, as CAP_SYS_PTRACE does not open another user's, from the stack.
Result<std::string> read_auxv(int proc_dir, const std::string& task, ProcessMemory& memory) {
  auto bytes = read_blocking_at(proc_dir, task + "/auxv", auxv_bytes);
  if (bytes && bytes->empty()) return fail(ErrorCode::not_found, "it has no memory any more");
  if (bytes || bytes.error().code != ErrorCode::not_permitted) return bytes;
  const auto line = read_blocking_at(proc_dir, task + "/stat", status_bytes);
  const auto stat = line.and_then(parse_stat);
  if (!stat) return bytes;
  auto on_stack = auxv_on_stack(memory, stat->stack_start);
  return on_stack ? on_stack : bytes;
}

template <class Word>
AuxVector parse_auxv(const std::string& bytes) {
  AuxVector auxv;
  for (std::size_t at = 0; at + 2 * sizeof(Word) <= bytes.size(); at += 2 * sizeof(Word)) {
    Word pair[2];
    std::memcpy(pair, bytes.data() + at, sizeof pair);
    if (pair[0] == AT_NULL) break;
    auxv[pair[0]] = pair[1];
  }
  return auxv;
}

}  // namespace

tl::unexpected<Error> zombie(pid_t pid, std::string_view name) {
  const std::string which = name.empty() ? "" : fmt::format(" ({})", name);
  return fail(ErrorCode::not_found,
              fmt::format("process {}{} has ended: it is a zombie", pid, which),
              "its memory is gone; its parent has not waited for it yet");
}

Result<ProcessDirectory> ProcessDirectory::open(pid_t pid) {
  if (pid <= 0) return none(pid);
  TRY(require_own_proc());
  auto fd = open_at(AT_FDCWD, fmt::format("/proc/{}", pid), O_RDONLY | O_DIRECTORY);
  if (!fd && fd.error().code == ErrorCode::not_found) return not_shown(pid);
  if (!fd) return fail_while(fmt::format("process {}", pid), std::move(fd.error()));
  auto status = read_file_at(fd->get(), "status", status_bytes);
  if (!status) return explain(pid, fd->get(), status.error());
  const auto group = status_field(*status, "Tgid");
  if (group && *group != std::to_string(pid))
    return fail(ErrorCode::not_found, fmt::format("{} is a thread of process {}", pid, *group),
                fmt::format("give the process: {}", *group));
  return ProcessDirectory{std::move(*fd), std::move(*status)};
}

Result<Process> Process::open(pid_t pid) {
  auto directory = TRY(ProcessDirectory::open(pid));
  Process process;
  process.pid_ = pid;
  process.proc_dir_ = std::move(directory.fd);
  const int dir = process.proc_dir();

  process.pidfd_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process.pidfd_)
    return errno == ESRCH ? Result<Process>(none(pid))
                          : fail(ErrorCode::unsupported,
                                 fmt::format("pidfd_open({}): {}", pid, std::strerror(errno)),
                                 "vitrine needs Linux 5.3 or later");

  const auto line = read_blocking_at(dir, "stat", status_bytes);
  if (!line) return explain(pid, dir, line.error());
  const auto stat = TRY(parse_stat(*line));
  if (stat.kernel_thread())
    return fail(ErrorCode::unsupported, fmt::format("{} ({}) is a kernel thread", pid, stat.comm),
                "kernel threads have no user memory, so they publish no labels");
  const auto live = live_thread(dir);
  if (!live && live.error().code != ErrorCode::not_found) return explain(pid, dir, live.error());
  if (!live) return zombie(pid, stat.comm);

  // A thread that lives represents the process, as a leader that exited has no auxv.
  process.memory_ = std::make_unique<ProcessMemory>(pid, dir, untag_mask(directory.status));
  const auto read = [&](const std::string& task) { return read_auxv(dir, task, *process.memory_); };
  auto bytes = read("task/" + std::to_string(*live));
  if (!bytes && !is_live(dir, *live)) bytes = by_live_thread(dir, read);
  if (auto why = process.memory_->withheld(); !bytes && !why.empty())
    return withheld(std::move(why));
  if (!bytes) return explain(pid, dir, bytes.error());
  process.auxv_ = parse_auxv<std::uint64_t>(*bytes);
  // The kernel fills it in late.
  if (process.auxv_.empty()) return executes(pid);
  if (!holds(process.auxv_, AT_PHENT, sizeof(Elf64_Phdr))) {
    if (holds(parse_auxv<std::uint32_t>(*bytes), AT_PHENT, sizeof(Elf32_Phdr)))
      return fail(ErrorCode::unsupported,
                  fmt::format("process {} ({}) is a 32-bit program", pid, stat.comm),
                  "the label formats are defined for 64-bit programs only");
    return fail(ErrorCode::malformed,
                fmt::format("process {}: its auxiliary vector has no program headers", pid));
  }

  process.machine_ = native_machine;
  process.identity_.start_time = stat.start_time;
  process.identity_.random_address = process.auxv_[AT_RANDOM];
  const auto random = process.memory_->read_exact(process.identity_.random_address,
                                                  process.identity_.random_bytes, "AT_RANDOM");
  if (random) return process;
  if (auto why = process.memory_->withheld(); !why.empty()) return withheld(std::move(why));
  switch (process.memory_->refusal()) {
    case 0:
      if (const auto image = program_image(dir); image == 0)
        return ended(pid);
      else if (image != vitrine_image_of(stat.code_start, stat.code_end, stat.stack_start))
        return executes(pid);
      return fail_while(fmt::format("process {}", pid), random.error());
    case ESRCH:
      return ended(pid);
    case EAGAIN:
      return fail(ErrorCode::failed,
                  fmt::format("process {}: cannot start a process to read its memory", pid),
                  "allow more processes (RLIMIT_NPROC, pids.max), or more memory");
    default:
      return tl::unexpected<Error>(access_refused(pid, dir, "read the memory of"));
  }
}

ProgramHeaders Process::program_headers() const {
  const auto entry = [&](std::uint64_t type) {
    const auto found = auxv_.find(type);
    return found == auxv_.end() ? 0 : found->second;
  };
  return {entry(AT_PHDR), entry(AT_PHNUM), entry(AT_BASE)};
}

namespace {

/// The link to the executable, where that of a leader that has exited leads nowhere.
std::string executable_link(int proc_dir) {
  const auto live = live_thread(proc_dir);
  return live ? fmt::format("task/{}/exe", *live) : "exe";
}

}  // namespace

std::string Process::executable_path() const {
  std::string path = target::executable_path(proc_dir(), "exe");
  if (path.empty()) path = target::executable_path(proc_dir(), executable_link(proc_dir()));
  return path.empty() ? fmt::format("/proc/{}/exe", pid_) : path;
}

Result<sandbox::OpenedFile> Process::open_executable() const {
  auto file = sandbox::open_regular_at(proc_dir(), "exe");
  if (!file && file.error().code == ErrorCode::not_found)
    file = sandbox::open_regular_at(proc_dir(), executable_link(proc_dir()));
  if (!file && file.error().code == ErrorCode::limit) return file;
  if (!file) return explain(pid_, proc_dir(), file.error());
  return file;
}

/// The pidfd is asked last: while the process lives no other has its number, so that what was
/// read by that number was its own. (The random bytes do not distinguish it from its fork.)
Result<void> Process::verify() {
  std::array<std::byte, 16> bytes{};
  const std::size_t got = memory_->read_some(identity_.random_address, bytes);
  const bool gave_up = memory_->gave_up();
  pollfd end{pidfd_.get(), POLLIN, 0};
  if (::poll(&end, 1, 0) > 0) return ended(pid_);
  if (got == bytes.size() && bytes == identity_.random_bytes) return {};
  if (memory_->refusal() == ESRCH) return ended(pid_);
  if (gave_up) return withheld(memory_->withheld());
  return fail(ErrorCode::another_program,
              fmt::format("process {} has executed another program", pid_));
}

}  // namespace vitrine::target
