#include "target/musl_thread.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "base/limits.hpp"
#include "target/maps.hpp"
#include "target/proc_file.hpp"

namespace vitrine::target {
namespace {

// musl 1.1.23 and later. `bias`: thread pointer minus address of struct pthread.
struct Layout {
  std::uint64_t bias, previous, next, tid, dtv;
};

constexpr Layout layout_of(Machine machine) {
  return machine == Machine::x86_64 ? Layout{0, 16, 24, 48, 8} : Layout{200, 8, 16, 32, 192};
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

bool has_dtv(Memory& memory, Address at, std::uint64_t tls_modules) {
  const auto dtv = memory.read_value<Address>(at, "the DTV pointer");
  const auto count = dtv ? memory.read_value<std::uint64_t>(*dtv, "the first word of a DTV")
                         : Result<std::uint64_t>(0);
  return count && *count >= tls_modules;
}

constexpr std::size_t chunk_bytes = 64 * 1024;
constexpr std::size_t first_part = 1U << 20;     // searched of a mapping
constexpr std::size_t last_part = 64 * 1024;     // a stack has the thread structure at its end
constexpr std::size_t memory_bytes = 64U << 20;  // searched of a process
constexpr std::size_t maps_bytes = 8U << 20;     // of text

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

std::vector<Range> thread_memory(int proc_dir) {
  std::vector<Range> ranges;
  const auto live = live_thread(proc_dir);  // a leader that has exited shows no mappings
  if (!live) return ranges;
  const auto text = read_file_at(proc_dir, "task/" + std::to_string(*live) + "/maps", maps_bytes);
  if (!text) return ranges;
  std::size_t total = 0;
  LineCutter cutter;
  cutter.feed(*text, [&](std::string_view line) {
    const auto mapping = parse_mapping(line);
    if (!mapping || !mapping->readable || !mapping->writable || mapping->shared ||
        total >= memory_bytes)
      return;
    const std::uint64_t size = mapping->end - mapping->start;
    if (size <= first_part + last_part) {
      ranges.push_back({mapping->start, mapping->end});
    } else {
      ranges.push_back({mapping->end - last_part, mapping->end});
      ranges.push_back({mapping->start, mapping->start + first_part});
    }
    total += std::min<std::size_t>(size, first_part + last_part);
  });
  return ranges;
}

std::optional<Address> musl_thread_in(Memory& memory, Machine machine, Range range,
                                      const std::map<pid_t, ThreadId>& wanted,
                                      std::uint64_t tls_modules) {
  const Layout layout = layout_of(machine);
  const auto is_thread = [&](Address at, const Header& header) {
    if (!wanted.contains(header.tid)) return false;
    const auto next = read_header(memory, layout, header.next);
    return next && next->previous == at && has_dtv(memory, at + layout.dtv, tls_modules);
  };
  std::vector<std::byte> bytes(chunk_bytes);
  Address at = range.begin / sizeof(Address) * sizeof(Address);
  while (at < range.end) {
    const std::size_t want =
        std::min<std::size_t>(chunk_bytes, static_cast<std::size_t>(range.end - at));
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

}  // namespace vitrine::target
