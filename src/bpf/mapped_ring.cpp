#include "bpf/mapped_ring.hpp"

#include <linux/bpf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "bpf/kernel_log.hpp"

namespace vitrine::bpf {
namespace {

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

/// A word that another end writes.
template <class Word>
Word load(const void* at) {
  return __atomic_load_n(static_cast<const Word*>(at), __ATOMIC_ACQUIRE);
}

}  // namespace

MappedRing::MappedRing(int map, std::size_t bytes)
    : map_(map),
      bytes_(bytes),
      data_(map, static_cast<off_t>(2 * page_bytes()), 2 * bytes, PROT_READ) {}

MappedRing::~MappedRing() {
  if (taken_ != nullptr) ::munmap(taken_, page_bytes());
  if (pages_ != nullptr) ::munmap(const_cast<std::byte*>(pages_), page_bytes());
}

Result<void> MappedRing::open() {
  const auto page = page_bytes();
  void* const own = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, map_, 0);
  if (own != MAP_FAILED) taken_ = static_cast<std::uint64_t*>(own);
  void* const its = own == MAP_FAILED ? own
                                      : ::mmap(nullptr, page, PROT_READ, MAP_SHARED, map_,
                                               static_cast<off_t>(page));
  if (its != MAP_FAILED) pages_ = static_cast<const std::byte*>(its);
  if (pages_ == nullptr || data_.begin() == nullptr)
    return tl::unexpected(KernelLog().error("map the buffer of records", errno));
  return {};
}

MappedRing::Taken MappedRing::take_all(Take take, void* context) {
  constexpr std::size_t header = BPF_RINGBUF_HDR_SZ;
  std::uint64_t at = *taken_;  // nothing else writes it
  for (;;) {
    const std::uint64_t end = load<std::uint64_t>(pages_);
    if (at >= end) return Taken::all;
    while (at < end) {
      const std::byte* const record = data_.begin() + (at & (bytes_ - 1));
      if (!data_.reach(record, header)) return Taken::failed;
      const auto word = load<std::uint32_t>(record);
      if ((word & BPF_RINGBUF_BUSY_BIT) != 0) return Taken::unready;
      const std::size_t length = word & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);
      if (length > bytes_ - header) {  // the kernel writes none such
        errno = EBADMSG;
        return Taken::failed;
      }
      if (!data_.reach(record, header + length)) return Taken::failed;
      const bool goes_on = (word & BPF_RINGBUF_DISCARD_BIT) != 0 ||
                           take(context, std::span(record + header, length));
      at += (header + length + 7) & ~std::uint64_t{7};
      __atomic_store_n(taken_, at, __ATOMIC_RELEASE);
      if (!goes_on) return Taken::stopped;
    }
  }
}

}  // namespace vitrine::bpf
