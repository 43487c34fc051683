#include "unwind/go_code.hpp"

#include <elf.h>

#include <algorithm>
#include <array>
#include <string>

#include "elf/image.hpp"
#include "unwind/instruction.hpp"

namespace vitrine::unwind {
namespace {

using Kind = RegisterRule::Kind;

constexpr std::int32_t word_bytes = 8;
constexpr int any = -1;

bool is_at(std::span<const std::byte> code, std::span<const int> wanted) {
  return code.size() >= wanted.size() &&
         std::equal(wanted.begin(), wanted.end(), code.begin(),
                    [](int byte, std::byte is) { return byte == any || std::byte(byte) == is; });
}

/// The rest of the code from where it has these bytes; empty: nowhere.
std::span<const std::byte> find(std::span<const std::byte> code, std::span<const int> wanted) {
  while (!code.empty() && !is_at(code, wanted)) code = code.subspan(1);
  return code;
}

// How a frame is made: before 1.21 as in the second of each pair.
constexpr std::array push_frame{0x55};                          // PUSHQ BP
constexpr std::array set_frame{0x48, 0x89, 0xe5};               // MOVQ SP, BP
constexpr std::array store_frame{0x48, 0x89, 0x6c, 0x24, any};  // MOVQ BP, n(SP)
constexpr std::array store_far_frame{0x48, 0x89, 0xac, 0x24, any, any, any, any};
constexpr std::array load_frame{0x48, 0x8d, 0x6c, 0x24, any};  // LEAQ n(SP), BP
constexpr std::array load_far_frame{0x48, 0x8d, 0xac, 0x24, any, any, any, any};

// What runtime.systemstack begins with (asm_amd64.s, Go 1.17 to 1.26), behind its frame. Where the
// program is position-independent, the offset of g is in a register first.
constexpr std::array loads_g{0x64, 0x48, 0x8b, 0x04, 0x25, any, any, any, any};  // MOVQ (TLS), AX
constexpr std::array loads_g_by_register{0x48, 0xc7, 0xc1, any,  any, any,
                                         any,  0x64, 0x48, 0x8b, 0x01};
constexpr std::array loads_m{
    0x48, 0x8b, 0x58, any,                // MOVQ g_m(AX), BX
    0x48, 0x3b, 0x43, any,                // CMPQ AX, m_gsignal(BX)
    0x74, any,                            // JEQ noswitch
    0x48, 0x8b, 0x13,                     // MOVQ m_g0(BX), DX
    0x48, 0x39, 0xd0,                     // CMPQ AX, DX
    0x74, any,                            // JEQ noswitch
    0x48, 0x3b, 0x83, any, any, any, any  // CMPQ AX, m_curg(BX)
};
constexpr std::size_t m_of_g_at = 3, current_of_m_at = loads_m.size() - 4;
// MOVQ (g_sched+gobuf_sp)(DX), SP, or to BX, and then to SP.
constexpr std::array loads_stack{0x48, 0x8b, 0x62, any}, loads_stack_first{0x48, 0x8b, 0x5a, any};

// What runtime.nanotime1 does before it leaves the stack (sys_linux_amd64.s, Go 1.17 to 1.26).
constexpr std::array stores_vdso{0x48, 0x8d, 0x54, 0x24, any,             // LEAQ ret+0(FP), DX
                                 0x48, 0x8b, 0x4a, 0xf8,                  // MOVQ -8(DX), CX
                                 0x48, 0x89, 0x8b, any,  any, any, any,   // MOVQ CX, m_vdsoPC(BX)
                                 0x48, 0x89, 0x93, any,  any, any, any};  // MOVQ DX, m_vdsoSP(BX)
constexpr std::size_t vdso_of_m_at = stores_vdso.size() - 4;

constexpr std::size_t looked_at = 256;  // bytes of such a function

/// The name without the mark of functions that assembly has.
std::string_view plain(std::string_view name) {
  return name.ends_with(".abi0") ? name.substr(0, name.size() - 5) : name;
}

bool take_systemstack(std::span<const std::byte> code, const elf::Encoding& encoding,
                      GoThread& thread) {
  const auto offset = [&](std::span<const std::byte> at, std::size_t byte) {
    return static_cast<std::int32_t>(encoding.u32(at.data() + byte));
  };
  if (const auto at = find(code, loads_g); !at.empty())
    thread.g_of_thread = offset(at, 5);
  else if (const auto by_register = find(code, loads_g_by_register); !by_register.empty())
    thread.g_of_thread = offset(by_register, 3);
  const auto m = find(code, loads_m);
  if (m.empty() || thread.g_of_thread == 0) return false;
  thread.m_of_g = static_cast<std::uint8_t>(m[m_of_g_at]);
  thread.current_of_m = encoding.u32(m.data() + current_of_m_at);
  auto stack = find(m, loads_stack);
  if (stack.empty()) stack = find(m, loads_stack_first);
  if (stack.empty()) return false;
  thread.stack_of_g = static_cast<std::uint8_t>(stack[3]);
  return true;
}

constexpr std::uint8_t x86_stack = roles_of(Machine::x86_64).stack;
constexpr std::uint8_t x86_frame = roles_of(Machine::x86_64).frame;
constexpr std::uint8_t x86_result = roles_of(Machine::x86_64).result;

Row outermost_row() {
  Row row;
  row.registers[x86_result] = {Kind::undefined, 0, 0};
  return row;
}

/// `depth`: what the function has of the stack; `saves`: its caller's frame pointer among that.
Row frame_row(std::int32_t depth, bool saves) {
  Row row;
  row.cfa = {Kind::in_register, 0, x86_stack};
  row.cfa_offset = std::int64_t{depth} + word_bytes;
  // A function of Go keeps no register but the frame pointer.
  for (std::size_t number = 0; number < x86_result; ++number)
    if (number != x86_stack && number != x86_frame) row.registers[number] = {Kind::undefined, 0, 0};
  if (saves) row.registers[x86_frame] = {Kind::at_cfa, 0, -2 * word_bytes};
  row.registers[x86_result] = {Kind::at_cfa, 0, -word_bytes};
  return row;
}

/// With the stack pointer on another stack than the frame is on.
Row switched_row() {
  Row row = frame_row(word_bytes, true);
  row.cfa = {Kind::in_register, 0, x86_frame};
  row.cfa_offset = 2 * word_bytes;
  row.changes_stack = true;
  return row;
}

}  // namespace

std::optional<GoThread> find_go_thread(Memory& file, const elf::File& elf) {
  if (elf.machine != EM_X86_64) return std::nullopt;
  GoThread thread;
  bool has_switch = false, has_vdso = false;
  elf::LoadedFile loaded(file, elf);
  elf::visit_go_functions(file, elf, [&](Address address, std::string_view name) {
    // One without the suffix may be a wrapper of the other.
    const bool is_switch = plain(name) == "runtime.systemstack";
    if (!is_switch && plain(name) != "runtime.nanotime1") return;
    std::array<std::byte, looked_at> bytes{};
    const auto code = std::span<const std::byte>(bytes).first(loaded.read_some(address, bytes));
    if (is_switch) {
      has_switch = has_switch || take_systemstack(code, elf.encoding, thread);
    } else if (const auto at = find(code, stores_vdso); !at.empty()) {
      thread.vdso_of_m = elf.encoding.u32(at.data() + vdso_of_m_at);
      has_vdso = true;
    }
  });
  return has_switch && has_vdso && is_sound(thread) ? std::optional(thread) : std::nullopt;
}

std::optional<GoCode> GoCode::open(Memory& file, const elf::File& elf, ReadCode read) {
  if (elf.machine != EM_X86_64) return std::nullopt;
  auto functions = elf::GoFunctions::open(file, elf);
  if (!functions) return std::nullopt;
  return GoCode(*functions, std::move(read));
}

/// What a function does with the stack and its frame.
struct GoCode::Shape {
  bool is_first = false;  ///< nothing has called it
  bool ends = false;      ///< on the other stack nothing has called it
  bool saves = false;     ///< it saves the frame pointer as soon as it takes any of the stack
  Address framed = ~Address{0};    ///< from here on the frame pointer is that of its own frame
  Address switched = ~Address{0};  ///< from here on the stack pointer may be of the other stack
};

/// Behind the first instruction that does more to the stack pointer than make room.
Address GoCode::stack_write(const elf::GoFunction& function) {
  constexpr int most = 4096;
  std::array<std::byte, instruction_bytes> bytes{};
  Address at = function.start;
  for (int n = 0; n < most && at < function.end; ++n) {
    const Instruction code = decode(std::span(bytes).first(read_(at, bytes)));
    if (code.length == 0) return at;
    at += code.length;
    const bool writes = code.kind == Instruction::Kind::load ||
                        code.kind == Instruction::Kind::move ||
                        code.kind == Instruction::Kind::clobber;
    if (writes && code.reg == Instruction::rsp && code.base != Instruction::rsp) return at;
  }
  return at;
}

GoCode::Shape GoCode::shape_of(const elf::GoFunction& function) {
  Shape shape;
  const auto flags = functions_.flags(function);
  const std::string full = flags.is_first || flags.switches_stack ? functions_.name(function) : "";
  const std::string_view name = plain(full);
  // The kernel calls handlers of signals: what was interrupted is above.
  shape.is_first =
      flags.is_first && !name.starts_with("runtime.sig") && !name.starts_with("runtime.cgoSig");
  Address grows = function.end;
  functions_.visit_depths(function, [&](Address from, Address, std::int32_t depth) {
    if (depth > 0) grows = from;
    return depth <= 0;
  });
  if (grows > function.start && grows < function.end) {
    std::array<std::byte, 1 + 16> bytes{};
    const auto code = std::span<const std::byte>(bytes).first(read_(grows - 1, bytes));
    const auto behind = code.subspan(std::min<std::size_t>(code.size(), 1));
    if (is_at(code, push_frame) && is_at(behind, set_frame)) {
      shape.saves = true;
      shape.framed = grows + set_frame.size();
    }
    for (const std::span<const int> store :
         {std::span<const int>(store_frame), std::span<const int>(store_far_frame)})
      for (const std::span<const int> load :
           {std::span<const int>(load_frame), std::span<const int>(load_far_frame)})
        if (is_at(behind, store) && is_at(behind.subspan(store.size()), load)) {
          shape.saves = true;
          shape.framed = grows + store.size() + load.size();
        }
  }
  if (!flags.switches_stack) return shape;
  // These leave a goroutine, or go to another one, that has not called them.
  constexpr std::array ends{"runtime.mcall", "runtime.morestack", "runtime.gogo", "gogo"};
  shape.ends = std::ranges::find(ends, name) != ends.end();
  shape.switched = shape.saves && !shape.ends ? shape.framed : stack_write(function);
  return shape;
}

void GoCode::visit_rows(const elf::GoFunction& function, const Take& take) {
  const Shape shape = shape_of(function);
  const Row outermost = outermost_row();
  if (shape.is_first) {
    take(function.start, function.end, &outermost);
    return;
  }
  const Row switched = switched_row();
  functions_.visit_depths(function, [&](Address from, Address to, std::int32_t depth) {
    const Row row = frame_row(depth, shape.saves && depth > 0);
    const auto part = [&](Address start, Address end, const Row* its) {
      start = std::max(start, from);
      end = std::min(end, to);
      return start >= end || take(start, end, its);
    };
    // Where nothing is left of the frame, the stack is the caller's again.
    const bool by_frame = shape.saves && !shape.ends;
    if (by_frame && depth <= 0) return part(from, to, &row);
    const Row* behind = by_frame ? &switched : shape.ends ? &outermost : nullptr;
    return part(from, shape.switched, &row) && part(shape.switched, to, behind);
  });
}

std::optional<Row> GoCode::row(Address address) {
  std::optional<Row> found;
  const auto function = functions_.find(address);
  if (!function) return found;
  visit_rows(*function, [&](Address, Address to, const Row* row) {
    if (address >= to) return true;
    if (row != nullptr) found = *row;
    return false;
  });
  return found;
}

RuleBlock GoCode::rules_around(Address address) {
  constexpr std::size_t max_spans = 32 * 1024;
  const auto function = functions_.find(address);
  if (!function || function->end - function->start > ~std::uint32_t{0}) return {};
  RuleBlock block{function->start, function->end, {}};
  visit_rows(*function, [&](Address from, Address to, const Row* row) {
    Rule rule;
    rule.form = Rule::Form::unknown;
    if (row != nullptr) rule = compact(*row, Machine::x86_64);
    block.spans.push_back({static_cast<std::uint32_t>(from - block.start),
                           static_cast<std::uint32_t>(to - from), rule});
    return block.spans.size() < max_spans;
  });
  return block.spans.size() < max_spans ? block : RuleBlock{};
}

}  // namespace vitrine::unwind
