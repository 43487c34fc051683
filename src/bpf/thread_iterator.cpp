#include "bpf/thread_iterator.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <threads.skel.h>
#include <unistd.h>

#include <cerrno>

#include "base/file_descriptor.hpp"
#include "bpf/kernel_log.hpp"

namespace vitrine::bpf {
namespace {

/// One read(2) of an iterator gives at most eight pages.
constexpr std::size_t threads_per_read = 8 * 4096 / sizeof(vitrine_thread);

class LoadedIterator final : public ThreadIterator {
 public:
  ~LoadedIterator() override {
    bpf_link__destroy(link_);
    vitrine_threads::destroy(program_);
  }

  Result<void> bind(int pidfd) {
    const KernelLog log;
    program_ = vitrine_threads::open_and_load();
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
  TRY(require_btf());
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

}  // namespace vitrine::bpf
