#include "target/libc.hpp"

#include <elf.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "base/limits.hpp"
#include "elf/symbols.hpp"
#include "target/maps.hpp"
#include "target/proc_file.hpp"

namespace vitrine::target {

ThreadLayout thread_layout(std::span<const Module> modules, const Glibc* glibc) {
  ThreadLayout layout;
  if (glibc != nullptr) layout.glibc = glibc->thread();
  for (const Module& module : modules)
    if (module.image.find(PT_TLS) != nullptr) ++layout.tls_modules;
  return layout;
}

namespace {

constexpr std::uint64_t forced_dynamic = ~std::uint64_t{0};
constexpr std::uint64_t structure_max = 64 * 1024;  // no structure of glibc is near that
constexpr std::size_t slot_lists_max = 1024;

enum Descriptor : std::size_t {
  link_map_tls_id,
  link_map_tls_offset,
  pthread_tid,
  sizeof_pthread,
  global_slots,
  list_length,
  list_next,
  list_slots,
  sizeof_slot,
  slot_generation,
  slot_map,
  descriptor_count,
};

constexpr std::array<std::string_view, descriptor_count> descriptor_names{
    "_thread_db_link_map_l_tls_modid",
    "_thread_db_link_map_l_tls_offset",
    "_thread_db_pthread_tid",
    "_thread_db_sizeof_pthread",
    "_thread_db_rtld_global__dl_tls_dtv_slotinfo_list",
    "_thread_db_dtv_slotinfo_list_len",
    "_thread_db_dtv_slotinfo_list_next",
    "_thread_db_dtv_slotinfo_list_slotinfo",
    "_thread_db_sizeof_dtv_slotinfo",
    "_thread_db_dtv_slotinfo_gen",
    "_thread_db_dtv_slotinfo_map",
};

// A member's descriptor is {u32 bits, u32 count, u32 offset}, a size's is one u32. Both end in the
// number wanted.
std::optional<std::uint64_t> number(Memory& memory, const Module& module,
                                    const std::optional<elf::Symbol>& symbol) {
  if (!symbol || symbol->size < 4) return std::nullopt;
  const auto value = memory.read_value<std::uint32_t>(
      module.image.bias + symbol->value + symbol->size - 4, "a descriptor of libc");
  return value && *value < structure_max ? std::optional<std::uint64_t>(*value) : std::nullopt;
}

using Numbers = std::array<std::uint64_t, descriptor_count>;

std::optional<Numbers> read_descriptors(Memory& memory, const Module& module) {
  const auto symbols = elf::find_symbols(memory, *module.dynamic, descriptor_names);
  if (!symbols) return std::nullopt;
  Numbers numbers{};
  for (std::size_t i = 0; i < descriptor_count; ++i) {
    const auto value = number(memory, module, (*symbols)[i]);
    if (!value) return std::nullopt;
    numbers[i] = *value;
  }
  return numbers;
}

Address find_rtld_global(Memory& memory, std::span<const Module> modules) {
  for (const Module& module : modules)
    if (module.dynamic && !module.executable)
      if (const auto symbol = elf::find_symbol(memory, *module.dynamic, "_rtld_global");
          symbol && *symbol)
        return module.image.bias + (*symbol)->value;
  return 0;
}

}  // namespace

std::optional<Glibc> Glibc::find(Memory& memory, std::span<const Module> modules) {
  for (const Module& module : modules) {
    if (!module.dynamic || module.executable) continue;
    const auto numbers = read_descriptors(memory, module);
    if (!numbers) continue;
    Glibc glibc;
    glibc.link_map_tls_id_ = (*numbers)[link_map_tls_id];
    glibc.link_map_tls_offset_ = (*numbers)[link_map_tls_offset];
    glibc.thread_ = {(*numbers)[pthread_tid], (*numbers)[sizeof_pthread]};
    glibc.list_length_ = (*numbers)[list_length];
    glibc.list_next_ = (*numbers)[list_next];
    glibc.list_slots_ = (*numbers)[list_slots];
    glibc.slot_size_ = (*numbers)[sizeof_slot];
    glibc.slot_generation_ = (*numbers)[slot_generation];
    glibc.slot_map_ = (*numbers)[slot_map];
    if (const Address global = find_rtld_global(memory, modules))
      glibc.slots_ = global + (*numbers)[global_slots];
    return glibc;
  }
  return std::nullopt;
}

Result<GlibcTls> Glibc::tls_of(Memory& memory, const Module& module) const {
  if (module.link_map == 0)
    return fail(ErrorCode::malformed, fmt::format("{} has no link_map", module.path));
  std::array<std::uint64_t, 2> words{};
  std::array<ReadRequest, 2> requests{
      ReadRequest{module.link_map + link_map_tls_id_,
                  std::as_writable_bytes(std::span(&words[0], 1)), 0},
      ReadRequest{module.link_map + link_map_tls_offset_,
                  std::as_writable_bytes(std::span(&words[1], 1)), 0}};
  memory.read(requests);
  if (!requests[0].complete() || !requests[1].complete())
    return fail(ErrorCode::malformed, fmt::format("the link_map of {} at {:#x} is not readable",
                                                  module.path, module.link_map));
  GlibcTls tls{words[0], std::nullopt};
  if (words[1] != 0 && words[1] != forced_dynamic) tls.static_offset = words[1];
  return tls;
}

Result<Glibc::Slot> Glibc::slot(Memory& memory, std::uint64_t module_id) const {
  const auto none = [&] {
    return fail(ErrorCode::not_found, fmt::format("glibc lists no TLS module {}", module_id));
  };
  if (slots_ == 0 || slot_size_ == 0) return none();
  auto list = TRY(memory.read_value<Address>(slots_, "_dl_tls_dtv_slotinfo_list"));
  std::uint64_t index = module_id;
  for (std::size_t i = 0; i < slot_lists_max && list != 0; ++i) {
    const auto length =
        TRY(memory.read_value<std::uint64_t>(list + list_length_, "a slotinfo list"));
    if (index < length) {
      if (index > limits::modules) return none();
      const Address entry = list + list_slots_ + index * slot_size_;
      const auto generation =
          TRY(memory.read_value<std::uint64_t>(entry + slot_generation_, "a slotinfo entry"));
      const auto map = TRY(memory.read_value<Address>(entry + slot_map_, "a slotinfo entry"));
      return Slot{generation, entry + slot_generation_, map};
    }
    index -= length;
    list = TRY(memory.read_value<Address>(list + list_next_, "a slotinfo list"));
  }
  return none();
}

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

constexpr int reads_of_changing_ring = 4;
constexpr std::size_t chunk_bytes = 64 * 1024;
constexpr std::size_t first_part = 1U << 20;     // searched of a mapping
constexpr std::size_t last_part = 64 * 1024;     // a stack has the thread structure at its end
constexpr std::size_t memory_bytes = 64U << 20;  // searched of a process
constexpr std::size_t maps_bytes = 8U << 20;     // of text

}  // namespace

MuslRing musl_ring(Memory& memory, Machine machine, Address tp, std::size_t& reads_left) {
  const Layout layout = layout_of(machine);
  MuslRing ring;
  const Address first = tp - layout.bias;
  for (const auto neighbour : {&Header::next, &Header::previous}) {
    for (Address pthread = first; !ring.closed;) {
      ring.cut = reads_left == 0;
      if (ring.cut) return ring;
      --reads_left;
      const auto header = read_header(memory, layout, pthread);
      if (!header) break;
      const bool is_new = ring.pointers.emplace(header->tid, pthread + layout.bias).second;
      if (!is_new && pthread != first) break;
      pthread = (*header).*neighbour;
      ring.closed = pthread == first;
    }
    if (ring.closed) break;
  }
  return ring;
}

std::vector<Range> thread_memory(int proc_dir) {
  std::vector<Range> ranges;
  const auto live = live_thread(proc_dir);  // a leader that has exited shows no mappings
  if (!live) return ranges;
  const auto text =
      read_blocking_at(proc_dir, "task/" + std::to_string(*live) + "/maps", maps_bytes);
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
                                      std::uint64_t tls_modules, std::size_t& candidates_left) {
  const Layout layout = layout_of(machine);
  // Its neighbour may begin or end between the two reads: what does not fit is read again.
  const auto is_thread = [&](Address at, Header header) {
    for (int reads = 0; reads < reads_of_changing_ring; ++reads) {
      if (candidates_left == 0 || !wanted.contains(header.tid)) return false;
      --candidates_left;
      const auto next = read_header(memory, layout, header.next);
      if (next && next->previous == at) return has_dtv(memory, at + layout.dtv, tls_modules);
      const auto again = read_header(memory, layout, at);
      if (!again) return false;
      header = *again;
    }
    return false;
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
