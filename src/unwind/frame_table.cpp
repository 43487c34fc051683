#include "unwind/frame_table.hpp"

#include <dwarf.h>
#include <elf.h>

#include <algorithm>
#include <array>

#include "base/limits.hpp"
#include "base/memory.hpp"
#include "elf/file.hpp"
#include "unwind/cfi.hpp"

namespace vitrine::unwind {
namespace {

using Kind = RegisterRule::Kind;

Row offset_row(Machine machine, std::int64_t cfa_offset) {
  const Roles roles = roles_of(machine);
  Row row;
  row.cfa = {Kind::in_register, 0, roles.stack};
  row.cfa_offset = cfa_offset;
  if (machine == Machine::x86_64) row.registers[roles.result] = {Kind::at_cfa, 0, -8};
  return row;
}

/// The CFA is the stack pointer; the interrupted registers are in a structure there.
Row signal_frame(Machine machine) {
  Row row = offset_row(machine, 0);
  row.registers = {};
  row.is_signal = true;
  return row;
}

template <std::size_t Size>
bool starts_with(std::span<const std::byte> code, const std::array<std::uint8_t, Size>& wanted) {
  return code.size() >= Size &&
         std::equal(wanted.begin(), wanted.end(), code.begin(),
                    [](std::uint8_t a, std::byte b) { return std::byte{a} == b; });
}

// arch/x86/include/uapi/asm/sigcontext.h: struct sigcontext_64, 40 bytes into the ucontext that the
// stack pointer is at. Its order, in DWARF numbers: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx,
// rsp, rip.
Row x86_64_signal() {
  constexpr std::array<std::uint8_t, 17> order{8, 9, 10, 11, 12, 13, 14, 15, 5,
                                               4, 6, 3,  1,  0,  2,  7,  16};
  Row row = signal_frame(Machine::x86_64);
  std::int64_t offset = 40;
  for (const std::uint8_t number : order) {
    row.registers[number] = {Kind::at_cfa, 0, offset};
    offset += 8;
  }
  return row;
}

// arch/arm64/include/uapi/asm/{ucontext,sigcontext}.h: 128 bytes of siginfo, 176 of ucontext before
// its sigcontext, 8 of fault address; then x0 to x30, sp, pc.
Row aarch64_signal() {
  Row row = signal_frame(Machine::aarch64);
  for (std::size_t number = 0; number < register_count; ++number)
    row.registers[number] = {Kind::at_cfa, 0,
                             128 + 176 + 8 + 8 * static_cast<std::int64_t>(number)};
  return row;
}

}  // namespace

Row signal_frame_row(Machine machine) {
  return machine == Machine::aarch64 ? aarch64_signal() : x86_64_signal();
}

std::optional<Row> linkage_row(Machine machine, std::string_view section, std::uint64_t offset) {
  const bool is_lazy = section == ".plt";
  if (!is_lazy && section != ".plt.sec" && section != ".plt.got" && section != ".iplt")
    return std::nullopt;
  if (machine == Machine::aarch64) {
    // The first entry, of 32 bytes, begins with stp x16, x30, [sp, #-16]!
    Row row = offset_row(machine, is_lazy && offset >= 4 && offset < 32 ? 16 : 0);
    if (row.cfa_offset != 0) row.registers[30] = {Kind::at_cfa, 0, -8};
    return row;
  }
  if (!is_lazy) return offset_row(machine, 8);
  // The first entry pushes a word of its own, after 6 bytes, onto that of the entry it came from.
  if (offset < 16) return offset_row(machine, offset < 6 ? 16 : 24);
  // The others: jmp *slot (6 bytes), push index (5), jmp first.
  return offset_row(machine, offset % 16 >= 11 ? 16 : 8);
}

std::optional<Row> signal_row(Machine machine, std::span<const std::byte> code) {
  if (machine == Machine::aarch64) {
    // mov x8, #139; svc #0
    constexpr std::array<std::uint8_t, 8> call{0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4};
    if (starts_with(code, call)) return signal_frame_row(machine);
    return std::nullopt;
  }
  // mov $15, %rax (or %eax); syscall
  constexpr std::array<std::uint8_t, 9> wide{0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
  constexpr std::array<std::uint8_t, 7> narrow{0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};
  if (starts_with(code, wide) || starts_with(code, narrow)) return signal_frame_row(machine);
  return std::nullopt;
}

namespace {

/// Where the file has the byte at one of its addresses, and how many follow it there.
struct Held {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

std::optional<Held> held_at(const elf::File& elf, Address address) {
  for (const elf::Segment& segment : elf.segments) {
    const std::uint64_t at = address - segment.address;
    if (segment.type == PT_LOAD && at < segment.file_size)
      return Held{segment.offset + at, segment.file_size - at};
  }
  return std::nullopt;
}

const elf::Segment* find_segment(const elf::File& elf, std::uint32_t type) {
  for (const elf::Segment& segment : elf.segments)
    if (segment.type == type) return &segment;
  return nullptr;
}

constexpr std::size_t end_of_context_bytes = 9;

/// Whether this is what a function of makecontext() returns to, in glibc: no function but that begins with the stack
/// pointer of another one (mov %rbx, %rsp).
bool is_start_of_context(std::span<const std::byte> code) {
  constexpr std::array<std::uint8_t, 4> endbr64{0xf3, 0x0f, 0x1e, 0xfa};
  constexpr std::array<std::uint8_t, 3> takes_stack{0x48, 0x89, 0xdc};
  return starts_with(code.subspan(starts_with(code, endbr64) ? endbr64.size() : 0), takes_stack);
}

/// Whether this is what a function of Boost.Context returns to: xor %rdi, %rdi; call _exit; hlt.
bool is_end_of_context(std::span<const std::byte> code) {
  constexpr std::array<std::uint8_t, 4> starts{0x48, 0x31, 0xff, 0xe8};
  return code.size() >= end_of_context_bytes && starts_with(code, starts) &&
         code[end_of_context_bytes - 1] == std::byte{0xf4};
}

constexpr std::uint64_t page_bytes = 4096;
/// KiB of the CFI: a worker has hundreds of files open.
constexpr std::size_t max_windows = limits::cfi_windows / 4;
/// Functions of a block, and rules. To ask costs as much as ten functions: of small files neighbours
/// are wanted soon, of libLLVM hardly ever. A function has up to some thousand rules.
constexpr std::size_t block_entries = 4;
constexpr std::size_t block_spans = 32 * 1024;

}  // namespace

Result<std::shared_ptr<FrameTable>> FrameTable::open(std::unique_ptr<Memory> file) {
  auto elf = TRY(elf::read_file(*file));
  const Machine machine = machine_of(elf.machine);
  if (!is_unwound(machine) || !elf.encoding.wide || elf.encoding.big_endian)
    return fail(ErrorCode::unsupported, "stacks are unwound on x86-64 and aarch64 only");
  std::shared_ptr<FrameTable> table(new FrameTable(std::move(file), std::move(elf), machine));
  table->find_cfi();
  table->go_ = GoCode::open(table->windows_, table->elf_,
                            [table = table.get()](Address at, std::span<std::byte> into) {
                              return table->read_code(at, into);
                            });
  return table;
}

FrameTable::FrameTable(std::unique_ptr<Memory> file, elf::File elf, Machine machine)
    : file_(std::move(file)),
      windows_(*file_, max_windows),
      elf_(std::move(elf)),
      machine_(machine),
      code_rules_([this](Address at, std::span<std::byte> into) { return read_code(at, into); }) {}

Result<std::optional<CfiSection>> open_eh_frame(Memory& memory, const elf::File& elf) {
  const elf::Segment* header = find_segment(elf, PT_GNU_EH_FRAME);
  const elf::Section* frames = elf.find(".eh_frame");
  CfiPlace place;
  if (frames != nullptr && frames->type != SHT_NOBITS) {
    place = {frames->offset, frames->size, frames->address, false};
  } else if (header != nullptr) {
    // Without sections the header has its place: a pointer relative to itself, after four bytes.
    std::int32_t distance = 0;
    if (memory.read_some(header->offset + 4, std::as_writable_bytes(std::span(&distance, 1))) == 4)
      place.address = header->address + 4 + static_cast<std::uint64_t>(distance);
    if (const auto held = held_at(elf, place.address))
      place = {held->offset, held->size, place.address, false};
  }
  if (place.size > limits::cfi_section)
    return fail(ErrorCode::limit, ".eh_frame is larger than 1 GiB");
  std::optional<CfiSection> found;
  if (place.size == 0) return found;
  found.emplace(memory, place);
  if (header == nullptr || !found->use_index(header->offset, header->file_size, header->address))
    found->make_index();
  if (found->entries() == 0) found.reset();
  return found;
}

void FrameTable::find_cfi() {
  auto frames = open_eh_frame(windows_, elf_);
  if (!frames) {
    problem_ = frames.error().message;
    return;
  }
  cfi_ = std::move(*frames);
  if (cfi_) return;
  // Go's linker, and handwritten code, have .debug_frame alone.
  const elf::Section* debug = elf_.find(".debug_frame");
  if (debug == nullptr) return;
  auto section = elf::read_section(*file_, elf_, *debug, limits::cfi_unpacked);
  if (!section) {
    problem_ = ".debug_frame: " + section.error().message;
    return;
  }
  problem_ = section->problem;
  const std::uint64_t size = section->bytes.size();
  unpacked_ = std::make_unique<ByteMemory>(std::move(section->bytes));
  cfi_.emplace(*unpacked_, CfiPlace{0, size, 0, true});
  cfi_->make_index();
}

std::optional<Address> bias_of(std::span<const elf::Segment> segments, Address start,
                               std::uint64_t offset) {
  for (const elf::Segment& segment : segments) {
    if (segment.type != PT_LOAD || (segment.flags & PF_X) == 0) continue;
    // Mappings are whole pages, and may be parts of a segment.
    const std::uint64_t first = segment.offset & ~(page_bytes - 1);
    if (offset >= first && offset - first < segment.file_size + page_bytes &&
        offset < segment.offset + segment.file_size)
      return start - offset + segment.offset - segment.address;
  }
  return std::nullopt;
}

std::optional<Row> FrameTable::make_row(Address address) {
  std::optional<Row> row;
  if (go_ && go_->has(address)) return go_->row(address);
  if (cfi_)
    if (const auto entry = cfi_->find(address)) row = row_at(*entry, address, machine_);
  if (row && !(row->is_signal && machine_ == Machine::aarch64)) return row;

  // A handler returns to the first instruction of the trampoline: what is looked up is the byte
  // before.
  if (const auto held = held_at(elf_, address + 1)) {
    std::byte code[signal_code_bytes];
    const std::size_t got = windows_.read_some(held->offset, code);
    if (auto signal = signal_row(machine_, std::span(code, got))) return signal;
  }
  if (row) return row;
  if (begins_context(address + 1) || ends_context(address + 1)) {
    row.emplace();
    row->registers[roles_of(machine_).result] = {RegisterRule::Kind::undefined, 0, 0};
    return row;
  }
  for (const elf::Section& section : elf_.sections)
    if ((section.flags & SHF_EXECINSTR) != 0 && address - section.address < section.size)
      return linkage_row(machine_, elf_.name(section), address - section.address);
  return std::nullopt;
}

/// Its first instruction is where the stack of a context ends; nothing has called it.
bool FrameTable::begins_context(Address function) {
  if (machine_ != Machine::x86_64 || !cfi_) return false;
  const auto entry = cfi_->find(function);
  if (!entry || entry->start != function) return false;
  std::array<std::byte, 8> code{};
  return is_start_of_context(std::span(code).first(read_code(function, code)));
}

/// The same in code without CFI.
bool FrameTable::ends_context(Address address) {
  if (machine_ != Machine::x86_64) return false;
  std::array<std::byte, end_of_context_bytes> code{};
  return is_end_of_context(std::span(code).first(read_code(address, code))) &&
         !code_rules_.follows_call(address);
}

std::size_t FrameTable::read_code(Address address, std::span<std::byte> into) {
  for (const elf::Segment& segment : elf_.segments) {
    const std::uint64_t at = address - segment.address;
    if (segment.type != PT_LOAD || (segment.flags & PF_W) != 0 || at >= segment.file_size) continue;
    const std::uint64_t size = std::min<std::uint64_t>(into.size(), segment.file_size - at);
    return windows_.read_some(segment.offset + at, into.first(static_cast<std::size_t>(size)));
  }
  return 0;
}

/// Whether the code without CFI around an address sets up frame pointers: a JIT compiler's own
/// functions do (V8's builtins), a C library's that was compiled without CFI does not.
bool FrameTable::has_frame_pointers(Address address) {
  constexpr Address around = 128 * 1024;
  constexpr std::size_t code_of_one = 16 * 1024;  // bytes that have one such function at least
  Address start = 0, end = ~Address{0};
  if (const auto position = cfi_ ? cfi_->position_of(address) : std::nullopt) {
    if (const auto entry = cfi_->entry_at(*position)) start = entry->start + entry->size;
    end = cfi_->start_of(*position + 1);
  } else if (cfi_) {
    end = cfi_->start_of(0);
  }
  const Address part = address & ~(2 * around - 1);
  start = std::max(start, part);
  end = std::min(end, part + 2 * around);
  const Address key = start;
  if (const auto known = frame_pointers_.find(key); known != frame_pointers_.end())
    return known->second;
  for (const elf::Segment& segment : elf_.segments) {
    if (segment.type != PT_LOAD || address - segment.address >= segment.file_size) continue;
    start = std::max(start, segment.address);
    end = std::min(end, segment.address + segment.file_size);
  }
  if (address < start || address >= end || end - start > 2 * around) return false;
  std::vector<std::byte> code(static_cast<std::size_t>(end - start));
  code.resize(read_code(start, code));
  // push %rbp; mov %rsp, %rbp
  constexpr std::array<std::uint8_t, 4> stores{0x55, 0x48, 0x89, 0xe5},
      loads{0x55, 0x48, 0x8b, 0xec};
  std::size_t functions = 0;
  for (std::size_t at = 0; at < code.size(); ++at) {
    const auto here = std::span<const std::byte>(code).subspan(at);
    functions += starts_with(here, stores) || starts_with(here, loads);
  }
  if (frame_pointers_.size() >= limits::cfi_windows) frame_pointers_.clear();
  return frame_pointers_[key] = functions > code.size() / code_of_one;
}

Rule FrameTable::rule_by_code(Address pc, bool is_return) {
  const Address lookup = pc - (is_return ? 1 : 0);
  const bool is_go = go_ && go_->has(lookup);
  if (machine_ != Machine::x86_64 || (!is_go && has_frame_pointers(lookup))) return {};
  Rule rule;
  if (!is_go) rule = code_rules_.rule(pc, is_return);
  if (rule.form == Rule::Form::none) rule.form = Rule::Form::unknown;
  return rule;
}

bool FrameTable::follows_call(Address address) {
  return machine_ != Machine::x86_64 || code_rules_.follows_call(address);
}

const Row* FrameTable::row(Address address) {
  row_ = make_row(address);
  return row_ ? &*row_ : nullptr;
}

/// Where the kernel begins to execute the file, as a program or as its dynamic linker: glibc's has no
/// CFI for it. From, to; nothing if the two are equal.
std::pair<Address, Address> FrameTable::start_code() {
  if (start_code_) return *start_code_;
  Elf64_Ehdr header{};
  if (machine_ == Machine::x86_64)
    file_->read_some(0, std::as_writable_bytes(std::span(&header, 1)));
  const Address from = header.e_entry;  // of a library: 0
  start_code_.emplace(from, from != 0 ? code_rules_.end_of_start(from) : 0);
  return *start_code_;
}

Rule FrameTable::rule(Address address) {
  if (const auto row = make_row(address)) return compact(*row, machine_);
  const auto [from, to] = start_code();
  Rule rule;
  if (address >= from && address < to) rule.form = Rule::Form::outermost;
  if (go_ && go_->has(address)) rule.form = Rule::Form::unknown;
  return rule;
}

RuleBlock FrameTable::rules_around(Address address) {
  if (go_ && go_->has(address)) return go_->rules_around(address);
  const auto position = cfi_ ? cfi_->position_of(address) : std::nullopt;
  if (!position) return rules_between(address, 0, cfi_ ? cfi_->start_of(0) : ~Address{0});
  RuleBlock block = rules_of_entries(*position);
  if (block.find(address) != nullptr) return block;
  const auto entry = cfi_->entry_at(*position);
  const Address start = cfi_->start_of(*position), end = cfi_->start_of(*position + 1);
  if (!entry || entry->size == 0) return rules_between(address, start, end);
  const Address last = entry->start + entry->size - 1;
  if (last < entry->start) return {};
  if (address > last) return rules_between(address, std::max(start, last + 1), end);
  if (address < entry->start) return rules_between(address, start, std::min(end, entry->start));
  return {};  // its program is invalid, or is that of a signal trampoline
}

RuleBlock FrameTable::rules_of_entries(std::size_t position) {
  const std::size_t first = position / block_entries * block_entries;
  const std::size_t last = std::min(first + block_entries, cfi_->entries());
  RuleBlock block{cfi_->start_of(first), cfi_->start_of(last), {}};
  bool is_full = false;
  for (std::size_t n = first; n < last && !is_full; ++n) {
    auto entry = cfi_->entry_at(n);
    const Address start = cfi_->start_of(n), end = cfi_->start_of(n + 1);
    // What make_row finds out by the code itself is left to it.
    if (!entry || (entry->common->is_signal && machine_ == Machine::aarch64)) continue;
    if (entry->start >= end) continue;
    entry->size = std::min(entry->size, end - entry->start);
    rules_of(*entry, machine_, [&](Address from, Address to, const Rule& rule) {
      from = std::max(from, start);
      if (from >= to) return true;
      const auto at = static_cast<std::uint32_t>(from - block.start);
      const auto size = static_cast<std::uint32_t>(to - from);
      if (!block.spans.empty() && block.spans.back().rule == rule &&
          block.spans.back().start + block.spans.back().size == at)
        block.spans.back().size += size;
      else
        block.spans.push_back({at, size, rule});
      is_full = block.spans.size() >= block_spans;
      return !is_full;
    });
  }
  return is_full ? RuleBlock{} : block;
}

/// `start` to `end` is code around the address that no CFI is about: one span without a rule, as far
/// as it is not in known_code() either.
RuleBlock FrameTable::rules_between(Address address, Address start, Address end) {
  start = std::max(start, address & ~(page_bytes - 1));
  end = std::min(end, start + page_bytes);
  for (const elf::Segment& segment : elf_.segments) {
    if (segment.type != PT_LOAD || address - segment.address >= segment.file_size) continue;
    start = std::max(start, segment.address);
    end = std::min(end, segment.address + segment.file_size);
    for (const elf::Section& section : elf_.sections) {
      if ((section.flags & SHF_EXECINSTR) == 0 || section.address >= end ||
          section.address + section.size <= start || !linkage_row(machine_, elf_.name(section), 0))
        continue;
      if (section.address > address)
        end = section.address;
      else
        start = section.address + section.size;
    }
    if (address < start || address >= end) return {};
    std::vector<std::byte> code(static_cast<std::size_t>(end - start) + signal_code_bytes);
    code.resize(windows_.read_some(segment.offset + (start - segment.address), code));
    for (std::size_t at = 0; at < code.size(); ++at)
      if (signal_row(machine_, std::span(code).subspan(at)) ||
          is_end_of_context(std::span(code).subspan(at)))
        return {};
    if (begins_context(end)) return {};
    RuleBlock block{start, end, {}};
    const auto add = [&](Address from, Address to, Rule::Form form) {
      from = std::max(from, start);
      to = std::min(to, end);
      Rule rule;
      rule.form = form;
      if (from < to)
        block.spans.push_back({static_cast<std::uint32_t>(from - start),
                               static_cast<std::uint32_t>(to - from), rule});
    };
    const auto [from, to] = start_code();
    add(start, from, Rule::Form::none);
    add(from, to, Rule::Form::outermost);
    add(to, end, Rule::Form::none);
    return block;
  }
  return {};
}

}  // namespace vitrine::unwind
