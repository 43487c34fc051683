#include "target/glibc_thread.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>

namespace vitrine::target {
namespace {

// struct pthread: …, tid (4 bytes, padded to 8), pid or padding, robust_prev, robust_head, …
constexpr std::uint64_t tid_before_head = 16;

// On x86-64 the thread pointer is the address of struct pthread, which begins with tcbhead_t: the
// words at 0 and 16 are its own address. robust_head is 0x2e0 bytes in; we look twice as far.
constexpr std::uint64_t self_offset = 16;
constexpr std::size_t search_bytes = 2048;

struct Probe {
  std::int32_t tid = 0;
  std::array<Address, 3> header{};
};

bool is_header(Address at, const std::array<Address, 3>& words) {
  return words[0] == at && words[self_offset / sizeof(Address)] == at;
}

// How far before `head` the thread pointer is, found by its self-references.
std::optional<std::uint64_t> search(Memory& memory, Address head) {
  std::array<Address, search_bytes / sizeof(Address)> words;
  if (head < search_bytes || head % sizeof(Address) != 0) return std::nullopt;
  // The structure may begin a mapping: what lies before it need not be readable.
  std::array<ReadRequest, 2> halves;
  const auto bytes = std::as_writable_bytes(std::span(words));
  const Address begin = head - search_bytes;
  const Address page = (head - 1) / 4096 * 4096;
  const std::size_t split = page > begin ? static_cast<std::size_t>(page - begin) : 0;
  halves[0] = {begin, bytes.first(split), 0};
  halves[1] = {begin + split, bytes.subspan(split), 0};
  memory.read(halves);
  if (!halves[1].complete()) return std::nullopt;
  const std::size_t first = halves[0].complete() ? 0 : split / sizeof(Address);
  for (std::size_t i = words.size() - self_offset / sizeof(Address); i-- > first;)
    if (is_header(begin + i * sizeof(Address), {words[i], words[i + 1], words[i + 2]}))
      return search_bytes - i * sizeof(Address);
  return std::nullopt;
}

}  // namespace

std::optional<Address> robust_list_head(pid_t tid) {
  void* head = nullptr;
  std::size_t length = 0;
  if (::syscall(SYS_get_robust_list, tid, &head, &length) != 0 || head == nullptr)
    return std::nullopt;
  return reinterpret_cast<Address>(head);
}

std::vector<std::optional<Address>> glibc_thread_pointers(
    Memory& memory, Machine machine, std::span<const RobustThread> threads,
    const std::optional<ThreadLayout::Glibc>& layout) {
  std::vector<std::optional<Address>> found(threads.size());
  if (threads.empty() || (machine == Machine::aarch64 && !layout)) return found;

  // The distance is one and the same in all threads of a process: look for it in one, then verify.
  std::optional<std::uint64_t> before;
  if (machine == Machine::aarch64)
    before = tid_before_head + layout->tid_offset - layout->size;  // tp = head - before, mod 2^64
  for (std::size_t i = 0; i < threads.size() && !before; ++i)
    before = search(memory, threads[i].head);
  if (!before) return found;

  std::vector<Probe> probes(threads.size());
  std::vector<ReadRequest> requests;
  requests.reserve(2 * threads.size());
  for (std::size_t i = 0; i < threads.size(); ++i) {
    const Address tp = threads[i].head - *before;
    requests.push_back({threads[i].head - tid_before_head,
                        std::as_writable_bytes(std::span(&probes[i].tid, 1)), 0});
    requests.push_back({tp, std::as_writable_bytes(std::span(probes[i].header)), 0});
  }
  memory.read(requests);
  for (std::size_t i = 0; i < threads.size(); ++i) {
    const Address tp = threads[i].head - *before;
    const bool tid_matches = requests[2 * i].complete() && probes[i].tid == threads[i].tid;
    const bool header_matches = machine == Machine::aarch64 ||
                                (requests[2 * i + 1].complete() && is_header(tp, probes[i].header));
    if (tid_matches && header_matches) found[i] = tp;
  }
  return found;
}

}  // namespace vitrine::target
