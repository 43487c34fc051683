#include "publish/context_mapping.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace vitrine::context {
namespace {

namespace abi = vitrine::abi::process_context;

// Kernel interface values that older headers lack.
constexpr unsigned memfd_cloexec = 0x1, memfd_allow_sealing = 0x2, memfd_noexec_seal = 0x8;
constexpr int prctl_set_vma = 0x53564d41, prctl_set_vma_anon_name = 0;

std::size_t page_size() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

int memfd_create(unsigned flags) {
  return static_cast<int>(syscall(SYS_memfd_create, abi::mapping_name, flags));
}

/// A private page of a memfd, whose name shows in /proc/PID/maps; MAP_FAILED and errno when
/// refused.
void* map_memfd() {
  int fd = memfd_create(memfd_cloexec | memfd_allow_sealing | memfd_noexec_seal);
  if (fd < 0) fd = memfd_create(memfd_cloexec | memfd_allow_sealing);  // kernels before 6.3
  if (fd < 0) return MAP_FAILED;
  void* page = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(page_size())) == 0)
    page = mmap(nullptr, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  const int error = errno;
  close(fd);
  errno = error;
  return page;
}

void* map_anonymous() {
  return mmap(nullptr, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/// Names the mapping. Readers hook this call to learn of a change, so it comes last in every change
/// and is made even where the kernel is known to refuse it.
bool announce(void* page) {
  return prctl(prctl_set_vma, prctl_set_vma_anon_name, page, page_size(), abi::mapping_name) == 0;
}

/// Never 0, and never that of the version before, even where the clock stands still.
std::uint64_t stamp_after(std::uint64_t before) {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return std::max(static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
                      static_cast<std::uint64_t>(now.tv_nsec),
                  before + 1);
}

/// Stores to the header are releases: each is seen by another CPU after all that came before it,
/// the bytes of the payload included.
template <class T>
void store(T& field, T value) {
  __atomic_store_n(&field, value, __ATOMIC_RELEASE);
}

Status unsupported(const std::string& call, int error) {
  return {Errc::unsupported,
          "cannot publish the process context: " + call + ": " + std::strerror(error)};
}

}  // namespace

Status Mapping::show(std::string payload) {
  previous_ = std::move(payload_);
  payload_ = std::make_unique<const std::string>(std::move(payload));
  if (!header_) return create();
  const std::uint64_t before = header_->published_at_ns;
  store<std::uint64_t>(header_->published_at_ns, 0);
  write(stamp_after(before));
  announce(header_);
  return {};
}

Status Mapping::create() {
  void* page = map_memfd();
  const int memfd_error = page == MAP_FAILED ? errno : 0;
  if (memfd_error) page = map_anonymous();
  if (page == MAP_FAILED) return unsupported("mmap", errno);
  // A child showing its parent's attributes as its own would be worse than showing none.
  if (madvise(page, page_size(), MADV_DONTFORK) != 0) {
    const int error = errno;
    munmap(page, page_size());
    return unsupported("madvise(MADV_DONTFORK)", error);
  }
  header_ = static_cast<Header*>(page);
  std::memcpy(header_->signature, abi::signature, sizeof header_->signature);
  header_->version = abi::version;
  write(stamp_after(0));
  if (!announce(page) && memfd_error) {
    const int error = errno;
    remove();
    return unsupported(std::string("no way to name the mapping, so no reader would find it: ") +
                           "memfd_create: " + std::strerror(memfd_error) +
                           "; prctl(PR_SET_VMA_ANON_NAME)",
                       error);
  }
  return {};
}

void Mapping::write(std::uint64_t published_at_ns) {
  store<std::uint64_t>(header_->payload, reinterpret_cast<std::uintptr_t>(payload_->data()));
  store(header_->payload_size, static_cast<std::uint32_t>(payload_->size()));
  store(header_->published_at_ns, published_at_ns);
}

void Mapping::remove() {
  if (!header_) return;
  munmap(header_, page_size());
  forget();
}

bool Mapping::mapped() const {
  unsigned char resident = 0;
  return header_ && mincore(header_, page_size(), &resident) == 0;
}

void Mapping::forget() {
  header_ = nullptr;
  payload_.reset();
  previous_.reset();
}

}  // namespace vitrine::context
