#include "target/process_memory.hpp"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "target/threads.hpp"

namespace vitrine::target {
namespace {

constexpr std::size_t batch_max = 1024;  // the kernel's UIO_MAXIOV

// A batch stops at its first bad address and is sent again without it. That many times are cheap;
// past them a hostile target could make each read copy a thousand iovecs, so we go one by one.
constexpr std::size_t failures_in_batches = 64;

}  // namespace

void ProcessMemory::read(std::span<ReadRequest> requests) {
  std::size_t failures = 0;
  while (!requests.empty()) {
    const std::size_t size = failures < failures_in_batches ? batch_max : 1;
    const auto batch = requests.first(std::min(size, requests.size()));
    for (ReadRequest& request : batch) request.got = 0;
    const std::size_t done = read_batch(batch);
    if (!batch[done - 1].complete()) ++failures;
    requests = requests.subspan(done);
  }
}

// Serves requests from the first on, up to and including the first incomplete one. Returns how
// many.
std::size_t ProcessMemory::read_batch(std::span<ReadRequest> requests) {
  for (;;) {
    errno = 0;
    const std::size_t done = file_ ? by_file(requests) : by_process_vm(requests);
    if (done > 0) return done;
    if (!recover(errno)) return requests.size();
  }
}

// 0, with errno, when nothing could be served for a reason that is not the address.
std::size_t ProcessMemory::by_process_vm(std::span<ReadRequest> requests) {
  std::vector<iovec> local(requests.size());
  std::vector<iovec> remote(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    local[i] = {requests[i].into.data(), requests[i].into.size()};
    // An address of the other process: only the kernel follows it.
    remote[i] = {reinterpret_cast<void*>(untag(requests[i].address)), requests[i].into.size()};
  }
  const ssize_t n =
      process_vm_readv(tid_, local.data(), requests.size(), remote.data(), requests.size(), 0);
  if (n < 0 && (errno == ESRCH || errno == EPERM || errno == ENOSYS)) return 0;
  std::size_t left = n < 0 ? 0 : static_cast<std::size_t>(n);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].got = std::min(left, requests[i].into.size());
    left -= requests[i].got;
    if (!requests[i].complete()) return i + 1;
  }
  return requests.size();
}

std::size_t ProcessMemory::by_file(std::span<ReadRequest> requests) {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    ReadRequest& request = requests[i];
    while (!request.complete()) {
      const auto rest = request.into.subspan(request.got);
      const Address at = untag(request.address) + request.got;
      const ssize_t n = pread64(file_.get(), rest.data(), rest.size(), static_cast<off64_t>(at));
      if (n <= 0) return i + 1;
      request.got += static_cast<std::size_t>(n);
    }
  }
  return requests.size();
}

// After a refusal: true when there is another way to try.
bool ProcessMemory::recover(int error) {
  refusal_ = error;
  if (error == ESRCH) {
    const auto live = live_thread(proc_dir_);
    if (!live || *live == tid_) return false;
    tid_ = *live;
  } else {
    auto file = open_at(proc_dir_, "task/" + std::to_string(tid_) + "/mem", O_RDONLY);
    if (!file) return false;
    file_ = std::move(*file);
  }
  refusal_ = 0;
  return true;
}

}  // namespace vitrine::target
