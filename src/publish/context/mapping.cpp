#include "publish/context/mapping.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "publish/base/bytes.hpp"
#include "publish/context/environment.hpp"

namespace vitrine::context {
namespace {

namespace abi = vitrine::abi::process_context;

// Kernel interface values that older headers lack.
constexpr unsigned memfd_cloexec = 0x1, memfd_allow_sealing = 0x2, memfd_noexec_seal = 0x8;
constexpr int prctl_set_vma = 0x53564d41, prctl_set_vma_anon_name = 0;

std::size_t page_size() noexcept {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

int memfd_create(unsigned flags) noexcept {
  return static_cast<int>(syscall(SYS_memfd_create, abi::mapping_name, flags));
}

/// A private page of a memfd, whose name shows in /proc/PID/maps; MAP_FAILED and errno when
/// refused.
void* map_memfd() noexcept {
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

void* map_anonymous() noexcept {
  return mmap(nullptr, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/// Names the mapping. Readers hook this call to learn of a change, so it comes last in every change
/// and is made even where the kernel is known to refuse it.
bool announce(void* page) noexcept {
  return prctl(prctl_set_vma, prctl_set_vma_anon_name, page, page_size(), abi::mapping_name) == 0;
}

/// Within the 10 ms to which the kernel reports when a process began: a context is not older than its process.
constexpr std::uint64_t yielded_ns = 5'000'000;

/// Never 0, and never that of the version before, even where the clock does not advance.
std::uint64_t stamp_after(std::uint64_t before, Age age) noexcept {
  const bool yields = age == Age::yielding;
  if (yields && before != 0) return before + 1;
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  const std::uint64_t now = static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U +
                            static_cast<std::uint64_t>(time.tv_nsec);
  return std::max(yields && now > yielded_ns ? now - yielded_ns : now, before + 1);
}

/// Stores to the header are releases: each is seen by another CPU after all that came before it,
/// the bytes of the payload included.
template <class T>
void store(T& field, T value) noexcept {
  __atomic_store_n(&field, value, __ATOMIC_RELEASE);
}

Status refusal(std::string_view call, int error) noexcept {
  return failure(error == ENOMEM ? Errc::out_of_memory : Errc::unsupported,
                 {"cannot publish the process context: ", call, ": ", ErrorText(error).view()});
}

/// Whether the kernel can read the address. (The first argument is not valid: the
/// call changes nothing. The kernel copies the mask before it looks at that argument.)
bool readable(const void* address) noexcept {
  return syscall(SYS_rt_sigprocmask, ~0, address, nullptr, sizeof(std::uint64_t)) == 0 ||
         errno != EFAULT;
}

/// A file that is closed at the end.
class File {
 public:
  explicit File(const char* path) noexcept : fd_(open(path, O_RDONLY | O_CLOEXEC)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_;
};

/// Where the mapping of a line of /proc/PID/maps begins, if its name and permissions are those of a context; 0: they
/// are not. "7f0000000000-7f0000001000 rw-p 00000000 00:01 1024    /memfd:OTEL_CTX (deleted)"
std::uintptr_t start_of_context(std::string_view line) noexcept {
  std::uintptr_t start = 0;
  std::size_t at = 0;
  for (; at < line.size() && publish::hex_digit(line[at]) >= 0; ++at)
    start = start << 4 | static_cast<unsigned>(publish::hex_digit(line[at]));
  at = line.find(' ');
  if (at == line.npos || line.size() < at + 5 || line[at + 1] != 'r' || line[at + 3] == 'x')
    return 0;
  for (const std::string_view form : {"/memfd:", "[anon_shmem:", "[anon:"}) {
    const std::size_t name = line.find(form);
    if (name == line.npos || name == 0 || line[name - 1] != ' ') continue;
    if (publish::part_of(line, name + form.size(), std::strlen(abi::mapping_name)) ==
        abi::mapping_name)
      return start;
  }
  return 0;
}

}  // namespace

bool is_context(std::uintptr_t address) noexcept {
  const File memory("/proc/self/mem");
  char signature[sizeof abi::signature] = {};
  constexpr auto size = sizeof(abi::Header::signature);
  return memory.get() >= 0 &&
         pread(memory.get(), signature, size, static_cast<off_t>(address)) ==
             static_cast<ssize_t>(size) &&
         std::memcmp(signature, abi::signature, size) == 0;
}

std::uintptr_t find_other_context(const void* own) noexcept {
  const File maps("/proc/self/maps");
  if (maps.get() < 0) return 0;
  char text[4096], line[128];  // of a longer line the beginning: names of contexts are short
  std::size_t size = 0;
  for (ssize_t got; (got = read(maps.get(), text, sizeof text)) > 0;) {
    for (ssize_t i = 0; i < got; ++i) {
      if (text[i] != '\n') {
        if (size < sizeof line) line[size++] = text[i];
        continue;
      }
      const std::uintptr_t start = start_of_context({line, size});
      size = 0;
      if (start != 0 && start != reinterpret_cast<std::uintptr_t>(own) && is_context(start))
        return start;
    }
  }
  return 0;
}

Status Mapping::show(Buffer payload, Age age) noexcept {
  if (header_ == nullptr) return create(std::move(payload), age);
  previous_ = std::move(payload_);
  payload_ = std::move(payload);
  const std::uint64_t before = header_->published_at_ns;
  store<std::uint64_t>(header_->published_at_ns, 0);
  write(stamp_after(before, age));
  announce(header_);
  return {};
}

Status Mapping::create(Buffer payload, Age age) noexcept {
  if (spare_.page == nullptr) {
    void* page = map_memfd();
    spare_.memfd_error = page == MAP_FAILED ? errno : 0;
    if (page == MAP_FAILED) page = map_anonymous();
    if (page == MAP_FAILED) return refusal("mmap", errno);
    spare_.page = static_cast<Header*>(page);
  }
  const Spare made = spare_;
  // A child showing its parent's attributes as its own would be worse than showing none.
  if (madvise(made.page, page_size(), MADV_DONTFORK) != 0) {
    const int error = errno;
    unmap(made);
    return refusal("madvise(MADV_DONTFORK)", error);
  }
  spare_ = {};
  header_ = made.page;
  memfd_error_ = made.memfd_error;
  payload_ = std::move(payload);
  std::memcpy(header_->signature, abi::signature, sizeof header_->signature);
  header_->version = abi::version;
  write(stamp_after(0, age));
  if (!announce(header_) && memfd_error_ != 0) {
    const int error = errno;
    remove();
    return failure(
        made.memfd_error == ENOMEM || error == ENOMEM ? Errc::out_of_memory : Errc::unsupported,
        {"cannot publish the process context: no way to name the mapping, so no reader would find "
         "it: memfd_create: ",
         ErrorText(made.memfd_error).view(),
         "; prctl(PR_SET_VMA_ANON_NAME): ", ErrorText(error).view()});
  }
  return {};
}

/// Unmaps a page that does not have the signature, or keeps it for the next mapping.
void Mapping::unmap(Spare page) noexcept {
  spare_ = munmap(page.page, page_size()) == 0 ? Spare{} : page;
}

void Mapping::write(std::uint64_t published_at_ns) noexcept {
  store<std::uint64_t>(header_->payload, reinterpret_cast<std::uintptr_t>(payload_.data()));
  store(header_->payload_size, static_cast<std::uint32_t>(payload_.size()));
  store(header_->published_at_ns, published_at_ns);
  shown_ = *header_;
}

void Mapping::remove() noexcept {
  if (header_ == nullptr) return;
  // Should the kernel refuse to unmap it: readers pass over a mapping without the signature.
  store<std::uint64_t>(header_->published_at_ns, 0);
  std::memset(static_cast<void*>(header_), 0, sizeof *header_);
  unmap({header_, memfd_error_, false});
  clear();
}

bool Mapping::mapped() const noexcept {
  if (header_ == nullptr) return false;
  unsigned char resident = 0;
  if (mincore(header_, page_size(), &resident) != 0 && errno == ENOMEM) return false;
  return readable(header_) && std::memcmp(header_, &shown_, sizeof shown_) == 0;
}

void Mapping::forget() noexcept {
  if (!spare_.inherited) spare_ = {};
  clear();
}

void Mapping::clear() noexcept {
  header_ = nullptr;
  payload_ = {};
  previous_ = {};
}

}  // namespace vitrine::context
