#include "unwind/code_rules.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <unordered_set>
#include <vector>

namespace vitrine::unwind {
namespace {

using Op = Instruction::Kind;

/// Instructions that are followed for one pc, and for whether one function returns.
constexpr std::size_t max_steps = 4096, max_function_steps = 512;
constexpr int max_depth = 8;  // calls of calls
constexpr std::size_t max_known_functions = 65'536;
constexpr Address code_alignment = 16;  // of functions
constexpr std::int32_t no_value = -1;   // eax is not known

/// How doubtful it is that a path is ever taken: calls may not return, least of all those with
/// padding behind them; and where a table ends is not known.
enum Doubt : std::size_t { no_doubt, behind_call, behind_padded_call, in_table, doubts };

/// What a register holds, by what it or the other held at the pc.
struct Value {
  enum class Base : std::uint8_t { stack, frame, saved, unknown };
  Base base = Base::unknown;
  std::int64_t offset = 0;  ///< saved: the word there, from the stack pointer at the pc
  bool operator==(const Value&) const = default;
};

}  // namespace

/// Where a path is, and what it has done to the stack.
struct CodeRules::Path {
  Address at = 0;
  Value stack{Value::Base::stack, 0};
  Value frame{Value::Base::frame, 0};
  std::int32_t eax = no_value;
  /// Where the frame pointer was stored since the pc.
  std::optional<Value> stored;
  Address table = 0;  ///< that it has the address of; 0: none

  [[nodiscard]] const Value* find(std::uint8_t number) const {
    return number == Instruction::rsp ? &stack : number == Instruction::rbp ? &frame : nullptr;
  }
  [[nodiscard]] Value get(std::uint8_t number, std::int64_t plus) const {
    const Value* value = find(number);
    if (value == nullptr ||
        (value->base != Value::Base::stack && value->base != Value::Base::frame))
      return {};
    return {value->base, value->offset + plus};
  }
  void set(std::uint8_t number, Value value) {
    if (number == Instruction::rsp) stack = value;
    if (number == Instruction::rbp) frame = value;
  }
  [[nodiscard]] Value word_at(const Value& place) const {
    if (stored && *stored == place) return {Value::Base::frame, 0};
    if (place.base == Value::Base::stack) return {Value::Base::saved, place.offset};
    return {};
  }
  void move_stack(std::int64_t by) {
    if (stack.base != Value::Base::unknown) stack.offset += by;
  }

  void step(const Instruction& code);
};

void CodeRules::Path::step(const Instruction& code) {
  switch (code.kind) {
    case Op::push:
      move_stack(-8);
      if (code.reg == Instruction::rbp && frame == Value{Value::Base::frame, 0}) stored = stack;
      return;
    case Op::pop:
      if (code.reg == Instruction::rbp) frame = word_at(stack);
      code.reg == Instruction::rsp ? set(Instruction::rsp, {}) : move_stack(8);
      if (code.reg == Instruction::rax) eax = no_value;
      return;
    case Op::add:
      set(code.reg, get(code.reg, code.value));
      break;
    case Op::move:
      set(code.reg, get(code.base, code.value));
      break;
    case Op::load:
      set(code.reg, code.reg == Instruction::rbp ? word_at(get(code.base, code.value)) : Value{});
      break;
    case Op::store:
      if (code.reg == Instruction::rbp && frame == Value{Value::Base::frame, 0})
        stored = get(code.base, code.value);
      return;
    case Op::leave:
      stack = get(Instruction::rbp, 0);
      frame = word_at(stack);
      move_stack(8);
      return;
    case Op::constant:
      eax = code.value;
      return;
    case Op::call:
      eax = no_value;
      return;
    case Op::clobber:
      // What a function keeps it also restores: what it does with the frame pointer meanwhile is
      // its own business.
      if (code.reg == Instruction::rsp) stack = {};
      break;
    default:
      return;
  }
  if (code.reg == Instruction::rax) eax = no_value;
}

namespace {

/// Whether a system call of this number does not come back.
bool is_exit(std::int32_t eax) {
  return eax == 60 || eax == 231 || eax == 15;  // exit, exit_group, rt_sigreturn
}

}  // namespace

/// CFA and frame pointer at a return, as a rule of the pc.
Rule CodeRules::rule_at_return(const Path& path) {
  Rule rule;
  if (path.stack.base != Value::Base::stack && path.stack.base != Value::Base::frame) return rule;
  const std::int64_t cfa = path.stack.offset + 8;
  // By the stack pointer the return address must be where it is at the pc.
  if (path.stack.base == Value::Base::stack && path.stack.offset < 0) return rule;
  rule.cfa_register = path.stack.base == Value::Base::stack ? 7 : 6;
  rule.cfa_offset = static_cast<std::int32_t>(cfa);
  if (rule.cfa_offset != cfa) return rule;
  rule.return_address_offset = -8;
  rule.frame_pointer = Rule::Source::lost;
  if (path.frame == Value{Value::Base::frame, 0}) rule.frame_pointer = Rule::Source::same;
  if (path.frame.base == Value::Base::saved && path.stack.base == Value::Base::stack &&
      path.frame.offset >= 0) {
    rule.frame_pointer = Rule::Source::at_cfa;
    rule.frame_pointer_offset = static_cast<std::int32_t>(path.frame.offset - cfa);
  }
  rule.form = Rule::Form::offsets;
  return rule;
}

/// What returns agree on.
struct CodeRules::Agreed {
  Rule rule;
  bool is_certain = true;

  void add(const Rule& other) {
    if (other.form == Rule::Form::none) return;
    if (rule.form == Rule::Form::none) {
      rule = other;
    } else if (rule.cfa_register != other.cfa_register || rule.cfa_offset != other.cfa_offset) {
      is_certain = false;
    } else if (rule.frame_pointer != other.frame_pointer ||
               rule.frame_pointer_offset != other.frame_pointer_offset) {
      rule.frame_pointer = Rule::Source::lost;
      rule.frame_pointer_offset = 0;
    }
  }
};

Instruction CodeRules::at(Address address) {
  std::array<std::byte, instruction_bytes> bytes{};
  const std::size_t got = read_(address, bytes);
  return decode(std::span(bytes).first(std::min(got, bytes.size())));
}

/// That the call which ends at a pc does not come back to it.
bool CodeRules::calls_for_good(Address pc) {
  constexpr Address call_bytes = 5;
  const Instruction call = at(pc - call_bytes);
  return call.kind == Op::call && call.length == call_bytes &&
         call.base != Instruction::no_register &&
         !returns(pc + static_cast<std::uint64_t>(std::int64_t{call.value}), max_depth);
}

/// Whether what is behind a call only fills up to where a function may begin.
bool CodeRules::ends_in_padding(Address address) {
  Instruction code = at(address);
  if (code.kind != Op::nop) return false;
  constexpr int most = 64;  // of one byte each, up to the largest alignment of functions
  int n = 0;
  for (; code.kind == Op::nop && n < most; ++n, code = at(address)) address += code.length;
  return n < most && address % code_alignment == 0;
}

/// Whether the instruction before adds one register to another: what is jumped to then is of a
/// table.
bool CodeRules::follows_sum(Address address) {
  std::array<std::byte, 3> bytes{};
  if (read_(address - bytes.size(), bytes) != bytes.size()) return false;
  return (bytes[0] & std::byte{0xf8}) == std::byte{0x48} && bytes[1] == std::byte{0x01} &&
         (bytes[2] & std::byte{0xc0}) == std::byte{0xc0};
}

/// Of a compiler's table for a switch: of differences from it, of 4 bytes, or of addresses. The
/// first of its entries are enough to find a way out of the function.
std::vector<Address> CodeRules::targets(Address table, std::size_t entry_bytes) {
  constexpr std::size_t entries = 4;
  std::vector<Address> found;
  for (std::size_t n = 0; n < entries; ++n) {
    std::array<std::byte, 8> bytes{};
    const auto entry = std::span(bytes).first(entry_bytes);
    if (read_(table + n * entry_bytes, entry) != entry_bytes) break;
    std::int32_t distance = 0;
    Address target = 0;
    std::memcpy(&distance, bytes.data(), sizeof distance);
    std::memcpy(&target, bytes.data(), sizeof target);
    if (entry_bytes == sizeof distance)
      target = table + static_cast<std::uint64_t>(std::int64_t{distance});
    if (target == table || at(target).length == 0) break;
    found.push_back(target);
  }
  return found;
}

/// A call to exit, abort and the like does not come back.
bool CodeRules::returns(Address function, int depth) {
  if (depth == 0) return true;
  if (const auto known = returns_.find(function); known != returns_.end()) return known->second;
  if (returns_.size() > max_known_functions) returns_.clear();
  returns_[function] = true;  // of one that calls itself
  std::vector<Address> open{function};
  std::unordered_set<Address> seen;
  while (!open.empty()) {
    Address address = open.back();
    open.pop_back();
    std::int32_t eax = no_value;
    while (seen.insert(address).second) {
      if (seen.size() > max_function_steps) return true;
      const Instruction code = at(address);
      const Address next = address + code.length;
      const Address target = next + static_cast<std::uint64_t>(std::int64_t{code.value});
      const bool is_direct = code.base != Instruction::no_register;
      if (code.length == 0 || code.kind == Op::ret || code.kind == Op::tail ||
          code.kind == Op::table || (code.kind == Op::jump && !is_direct))
        return true;
      if (code.kind == Op::stop) break;
      if (code.kind == Op::syscall && is_exit(eax)) break;
      if (code.kind == Op::call && is_direct && !returns(target, depth - 1)) break;
      if (code.kind == Op::constant)
        eax = code.value;
      else if (code.kind == Op::call || code.reg == Instruction::rax)
        eax = no_value;
      if (code.kind == Op::branch) open.push_back(target);
      address = code.kind == Op::jump ? target : next;
    }
  }
  return returns_[function] = false;
}

/// exit(main(…)), __pthread_exit(start(…)), and musl's __clone: the result of the function that
/// returns to the pc goes to what never returns.
bool CodeRules::ends_thread(Address pc) {
  const Instruction first = at(pc);
  std::array<std::byte, 3> bytes{};
  read_(pc, bytes);
  constexpr std::array short_move{std::byte{0x89}, std::byte{0xc7}};  // mov %eax, %edi
  constexpr std::array long_move{std::byte{0x48}, std::byte{0x89}, std::byte{0xc7}};
  const bool is_short = std::equal(short_move.begin(), short_move.end(), bytes.begin());
  if (!is_short && bytes != long_move) return false;
  Address address = pc + first.length;
  std::int32_t eax = no_value;
  constexpr int few = 5;
  for (int n = 0; n < few; ++n) {
    const Instruction code = at(address);
    if (code.length == 0) return false;
    address += code.length;
    const Address target = address + static_cast<std::uint64_t>(std::int64_t{code.value});
    if (code.kind == Op::call)
      return code.base != Instruction::no_register && !returns(target, max_depth);
    if (code.kind == Op::syscall) return is_exit(eax);
    if (code.kind == Op::constant)
      eax = code.value;
    else if (code.kind != Op::other)
      return false;
  }
  return false;
}

/// On to the next return, or to where the path is one of more doubt.
void CodeRules::follow(Path path, std::size_t doubt, std::span<std::vector<Path>> open,
                       std::unordered_set<Address>& seen, Agreed& agreed) {
  while (seen.insert(path.at).second && seen.size() <= max_steps) {
    const Instruction code = at(path.at);
    const Address next = path.at + code.length;
    const Address target = next + static_cast<std::uint64_t>(std::int64_t{code.value});
    const bool is_direct = code.base != Instruction::no_register;
    if (code.length == 0 || code.kind == Op::stop) return;
    const bool is_indirect_jump = code.kind == Op::jump && !is_direct;
    // By a register: a tail call, where the frame has been left, or where a function only does that.
    const bool has_left =
        path.stack != Value{Value::Base::stack, 0} || path.at % code_alignment == 0;
    const bool is_tail = is_indirect_jump && code.reg != Instruction::no_register &&
                         path.table == 0 && has_left && !follows_sum(path.at);
    if (code.kind == Op::ret || code.kind == Op::tail || is_tail)
      return agreed.add(rule_at_return(path));
    if (code.kind == Op::table || is_indirect_jump) {
      const bool by_table = code.kind == Op::table;
      const Address table = by_table ? static_cast<std::uint32_t>(code.value) : path.table;
      if (table == 0) return;
      for (const Address to : targets(table, by_table ? 8 : 4))
        open[in_table].emplace_back(path).at = to;
      return;
    }
    if (code.kind == Op::syscall && is_exit(path.eax)) return;
    if (code.kind == Op::call && is_direct && !returns(target, max_depth)) return;
    path.step(code);
    if (code.kind == Op::address) path.table = target;
    if (code.kind == Op::branch) open[doubt].emplace_back(path).at = target;
    path.at = code.kind == Op::jump ? target : next;
    if (code.kind != Op::call) continue;
    const std::size_t more = ends_in_padding(next) ? behind_padded_call : behind_call;
    if (more <= doubt) continue;
    open[more].push_back(path);
    return;
  }
}

Rule CodeRules::rule(Address pc, bool is_return) {
  if (is_return && ends_thread(pc)) {
    Rule rule;
    rule.form = Rule::Form::outermost;
    return rule;
  }
  if (is_return && calls_for_good(pc)) return {};
  // The paths with the least doubt first: what these agree on needs no others.
  std::array<std::vector<Path>, doubts> open;
  open[0].emplace_back().at = pc;
  std::unordered_set<Address> seen;
  for (std::size_t doubt = 0; doubt < doubts; ++doubt) {
    Agreed agreed;
    while (!open[doubt].empty()) {
      Path path = open[doubt].back();
      open[doubt].pop_back();
      follow(path, doubt, open, seen, agreed);
      if (seen.size() > max_steps) return {};
    }
    if (agreed.rule.form != Rule::Form::none) return agreed.is_certain ? agreed.rule : Rule{};
  }
  return {};
}

/// Such code takes the stack pointer as it is, for the arguments and the environment are there. No
/// function does: it would take the place of its own return address.
Address CodeRules::end_of_start(Address entry) {
  constexpr int most = 64;  // instructions
  bool has_stack = false;
  std::int32_t eax = no_value;
  Address address = entry;
  for (int n = 0; n < most; ++n) {
    const Instruction code = at(address);
    if (code.length == 0 || code.kind == Op::stop || code.kind == Op::ret) break;
    const bool moves_stack = code.kind == Op::push || code.kind == Op::pop ||
                             code.kind == Op::call || code.reg == Instruction::rsp;
    if (moves_stack && !has_stack) return entry;
    has_stack =
        has_stack || (code.kind == Op::move && code.base == Instruction::rsp && code.value == 0);
    address += code.length;
    if (code.kind == Op::jump || code.kind == Op::tail || code.kind == Op::table) break;
    if (code.kind == Op::call && ends_in_padding(address)) break;
    if (code.kind == Op::syscall && is_exit(eax)) break;
    if (code.kind == Op::constant) eax = code.value;
  }
  return has_stack ? address : entry;
}

bool CodeRules::follows_call(Address address) {
  constexpr std::size_t longest = 9;  // of a call: prefixes, ff, modrm, sib, displacement
  std::array<std::byte, longest> bytes{};
  if (address < longest || read_(address - longest, bytes) != longest) return false;
  for (std::size_t length = 2; length <= longest; ++length) {
    const Instruction code = decode(std::span(bytes).last(length));
    if (code.kind == Op::call && code.length == length) return true;
  }
  return false;
}

}  // namespace vitrine::unwind
