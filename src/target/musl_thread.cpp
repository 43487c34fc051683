#include "target/musl_thread.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/limits.hpp"
#include "target/proc_file.hpp"

namespace vitrine::target {
namespace {

// musl 1.1.23 and later. `bias`: thread pointer minus address of struct pthread.
struct Layout {
  std::uint64_t bias, previous, next, tid;
};

constexpr Layout layout_of(Machine machine) {
  return machine == Machine::x86_64 ? Layout{0, 16, 24, 48} : Layout{200, 8, 16, 32};
}

constexpr std::size_t header_bytes = 56;  // up to and with the tid, on both machines

struct Header {
  Address self = 0;
  Address previous = 0;
  Address next = 0;
  std::int32_t tid = 0;
};

Header parse(const std::byte* at, const Layout& layout) {
  Header header;
  std::memcpy(&header.self, at, sizeof header.self);
  std::memcpy(&header.previous, at + layout.previous, sizeof header.previous);
  std::memcpy(&header.next, at + layout.next, sizeof header.next);
  std::memcpy(&header.tid, at + layout.tid, sizeof header.tid);
  return header;
}

std::optional<Header> read_header(Memory& memory, const Layout& layout, Address pthread) {
  std::array<std::byte, header_bytes> bytes;
  if (memory.read_some(pthread, bytes) != bytes.size()) return std::nullopt;
  const Header header = parse(bytes.data(), layout);
  return header.self == pthread ? std::optional(header) : std::nullopt;
}

constexpr std::size_t chunk_bytes = 64 * 1024;
constexpr std::size_t search_bytes = 1U << 20;  // of one range

}  // namespace

std::map<pid_t, Address> musl_ring(Memory& memory, Machine machine, Address tp) {
  const Layout layout = layout_of(machine);
  std::map<pid_t, Address> found;
  const Address first = tp - layout.bias;
  Address pthread = first;
  do {
    const auto header = read_header(memory, layout, pthread);
    if (!header || !found.emplace(header->tid, pthread + layout.bias).second) break;
    pthread = header->next;
  } while (pthread != first && found.size() < limits::threads);
  return found;
}

std::optional<Address> musl_thread_in(Memory& memory, Machine machine, ThreadLayout::Range range,
                                      const std::map<pid_t, ThreadId>& wanted) {
  const Layout layout = layout_of(machine);
  const auto is_thread = [&](Address at, const Header& header) {
    if (!wanted.contains(header.tid)) return false;
    const auto next = read_header(memory, layout, header.next);
    return next && next->previous == at;
  };
  std::vector<std::byte> bytes(chunk_bytes);
  Address at = range.begin / sizeof(Address) * sizeof(Address);
  const Address end = std::min(range.end, at + search_bytes);
  while (at < end) {
    const std::size_t want = std::min<std::size_t>(chunk_bytes, static_cast<std::size_t>(end - at));
    const std::size_t got = memory.read_some(at, std::span(bytes).first(want));
    if (got < header_bytes) return std::nullopt;
    std::size_t i = 0;
    for (; i + header_bytes <= got; i += sizeof(Address)) {
      Address self = 0;
      std::memcpy(&self, bytes.data() + i, sizeof self);
      if (self == at + i && is_thread(self, parse(bytes.data() + i, layout)))
        return self + layout.bias;
    }
    if (got < want) return std::nullopt;
    at += i;
  }
  return std::nullopt;
}

std::optional<ThreadLayout::Range> blocked_stack(int proc_dir, pid_t tid) {
  const auto line = read_file_at(proc_dir, "task/" + std::to_string(tid) + "/syscall", 512);
  // "NR args… SP PC", or "-1 SP PC", or "running"
  const auto last = line ? line->find_last_of(' ') : std::string::npos;
  if (last == std::string::npos || last == 0) return std::nullopt;
  const auto before = line->find_last_of(' ', last - 1);
  if (before == std::string::npos) return std::nullopt;
  const Address sp = std::strtoull(line->c_str() + before + 1, nullptr, 16);
  return ThreadLayout::Range{sp, sp + search_bytes};
}

}  // namespace vitrine::target
