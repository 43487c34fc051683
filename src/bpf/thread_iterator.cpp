#include "bpf/thread_iterator.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <threads.skel.h>
#include <unistd.h>
#include <waiting.skel.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <mutex>
#include <string_view>

#include "base/file_descriptor.hpp"
#include "base/own_process.hpp"
#include "base/signals.hpp"
#include "bpf/availability.hpp"
#include "bpf/kernel_log.hpp"

namespace vitrine::bpf {
namespace {

/// Runs an iterator that emits nothing on every task there is: what it does is in maps. Returns an errno.
int run_silently(const bpf_program* program) {
  bpf_link* link = bpf_program__attach_iter(program, nullptr);
  if (link == nullptr) return errno;
  const int fd = bpf_iter_create(bpf_link__fd(link));
  int error = fd < 0 ? errno : 0;
  std::array<char, 64> nothing{};
  while (fd >= 0) {
    const ssize_t got = ::read(fd, nothing.data(), nothing.size());
    if (got == 0) break;
    if (got < 0 && errno != EAGAIN && errno != EINTR) {
      error = errno;
      break;
    }
  }
  if (fd >= 0) ::close(fd);
  bpf_link__destroy(link);
  return error;
}

/// One read(2) of an iterator gives at most eight pages.
constexpr std::size_t threads_per_read = 8 * 4096 / sizeof(vitrine_thread);

/// Loaded once for all iterators of a process, and kept: libbpf reads all types of the kernel for it, which takes
/// 20 ms.
class ThreadsProgram {
 public:
  /// Null: errno has the reason.
  vitrine_threads* get() {
    const std::lock_guard lock(mutex_);
    if (program_ == nullptr) {
      const SignalsBlocked blocked;  // of the verifier
      program_ = vitrine_threads::open_and_load();
    }
    return program_;
  }

 private:
  std::mutex mutex_;
  vitrine_threads* program_ = nullptr;
};

class LoadedIterator final : public ThreadIterator {
 public:
  ~LoadedIterator() override { bpf_link__destroy(link_); }

  Result<void> bind(int pidfd) {
    const KernelLog log;
    program_ = PerProcess<ThreadsProgram>::get().get();
    if (program_ == nullptr) return tl::unexpected(log.error("load the thread iterator", errno));
    bpf_iter_link_info which{};
    which.task.pid_fd = static_cast<__u32>(pidfd);
    bpf_iter_attach_opts options{};
    options.sz = sizeof options;
    options.link_info = &which;
    options.link_info_len = sizeof which;
    link_ = bpf_program__attach_iter(program_->progs.threads, &options);
    if (link_ == nullptr) return tl::unexpected(log.error("bind the thread iterator", errno));
    return {};
  }

  Result<void> read(std::vector<vitrine_thread>& into) override {
    const KernelLog log;
    const int fd = bpf_iter_create(bpf_link__fd(link_));
    if (fd < 0) return tl::unexpected(log.error("start the thread iterator", fd));
    into.clear();
    std::size_t have = 0;
    ssize_t got = 0;
    for (;;) {
      into.resize(have + threads_per_read);
      got = ::read(fd, into.data() + have, threads_per_read * sizeof(vitrine_thread));
      if (got <= 0 && !(got < 0 && (errno == EAGAIN || errno == EINTR))) break;
      if (got > 0) have += static_cast<std::size_t>(got) / sizeof(vitrine_thread);
    }
    const int error = errno;
    ::close(fd);
    into.resize(have);
    if (got < 0) return tl::unexpected(log.error("read from the thread iterator", error));
    return {};
  }

 private:
  vitrine_threads* program_ = nullptr;
  bpf_link* link_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<ThreadIterator>> ThreadIterator::open(int pidfd) {
  TRY(require_kernel());
  auto iterator = std::make_unique<LoadedIterator>();
  TRY(iterator->bind(pidfd));
  return iterator;
}

Result<vitrine_thread> kernel_view_of(pid_t pid) {
  const FileDescriptor pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) return fail(ErrorCode::not_found, fmt::format("no process {}", pid));
  std::vector<vitrine_thread> threads;
  TRY(TRY(ThreadIterator::open(pidfd.get()))->read(threads));
  if (threads.empty()) return fail(ErrorCode::not_found, fmt::format("process {} has ended", pid));
  return threads.front();
}

std::uint32_t pid_namespace() {
  static const std::uint32_t inode = [] {
    constexpr std::string_view before = "pid:[";
    char name[64] = {};
    const ssize_t length = ::readlink("/proc/self/ns/pid", name, sizeof name - 1);
    std::uint32_t number = 0;
    if (length > 0 && std::string_view(name).starts_with(before))
      std::from_chars(name + before.size(), name + length, number);
    return number;
  }();
  return inode;
}

bool in_initial_pid_namespace() {
  return pid_namespace() == 4026531836;  // PROC_PID_INIT_INO
}

Result<pid_t> kernel_tgid_of(pid_t pid) {
  if (in_initial_pid_namespace()) return pid;
  return static_cast<pid_t>(TRY(kernel_view_of(pid)).kernel_tgid);
}

namespace {

class LoadedWaitingThreads final : public WaitingThreads {
 public:
  ~LoadedWaitingThreads() override { vitrine_waiting::destroy(program_); }

  Result<void> load(bpf_object* profiler, const vitrine_profile_config& profile_config) {
    const KernelLog log;
    program_ = vitrine_waiting::open();
    int error = program_ != nullptr ? share_maps(profiler) : errno;
    if (error == 0) program_->rodata->profile_config = profile_config;
    if (error == 0) {
      const SignalsBlocked blocked;  // of the verifier
      error = vitrine_waiting::load(program_);
    }
    if (error != 0) return tl::unexpected(log.error("load the reader of waiting threads", error));
    return {};
  }

  Result<void> sample(const vitrine_event_config& config,
                      const vitrine_profile_state& profile_state, std::uint64_t began_ns) override {
    const KernelLog log;
    TRY(require_variables(program_->bss, "the thread iterator"));
    program_->bss->config = config;
    program_->bss->profile_state = profile_state;
    program_->bss->began_ns = began_ns;
    if (const int error = run_silently(program_->progs.waiting))
      return tl::unexpected(log.error("read the threads that wait", error));
    return {};
  }

 private:
  /// Those that both have, except for what is each one's own: variables, and room to work in.
  int share_maps(bpf_object* profiler) {
    bpf_map* map = nullptr;
    bpf_object__for_each_map(map, program_->obj) {
      if (bpf_map__is_internal(map) || map == program_->maps.scratches) continue;
      const bpf_map* theirs = bpf_object__find_map_by_name(profiler, bpf_map__name(map));
      if (theirs == nullptr) continue;
      if (const int error = bpf_map__reuse_fd(map, bpf_map__fd(theirs))) return error;
    }
    return 0;
  }

  vitrine_waiting* program_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<WaitingThreads>> WaitingThreads::open(
    bpf_object* profiler, const vitrine_profile_config& profile_config) {
  auto threads = std::make_unique<LoadedWaitingThreads>();
  auto loaded = threads->load(profiler, profile_config);
  if (loaded) return threads;
  // Asked afterwards, as this takes the kernel's type information, which takes longer than all the rest.
  if (kernel_has_function("bpf_task_from_pid")) return tl::unexpected(loaded.error());
  return fail(ErrorCode::unsupported,
              "this kernel cannot read the memory of other threads (bpf_task_from_pid, Linux 6.2)");
}

}  // namespace vitrine::bpf
