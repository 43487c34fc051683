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
constexpr std::uint8_t no_register = Instruction::no_register;
constexpr std::uint8_t rax = 0, rsp = 4, rbp = 5;  // as instructions number them

/// One instruction from its first byte on; `failed` beyond what is there.
class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> code)
      : code_(code.first(std::min(code.size(), instruction_bytes))) {}

  Instruction run() {
    prefixes();
    const std::uint8_t opcode = byte();
    if (opcode == 0xc4 || opcode == 0xc5 || opcode == 0x62)
      vector(opcode);
    else if (opcode == 0x0f)
      two_bytes();
    else
      one_byte(opcode);
    if (failed_) return {};
    out_.length = static_cast<std::uint8_t>(at_);
    return out_;
  }

 private:
  std::uint8_t byte() {
    if (at_ >= code_.size()) {
      failed_ = true;
      return 0;
    }
    return static_cast<std::uint8_t>(code_[at_++]);
  }
  std::int32_t number(std::size_t size) {
    std::uint32_t value = 0;
    for (std::size_t n = 0; n < size; ++n) {
      const std::uint32_t part = byte();
      if (n < 4) value |= part << 8 * n;
    }
    if (size == 1) return static_cast<std::int8_t>(value);
    return size == 2 ? static_cast<std::int16_t>(value) : static_cast<std::int32_t>(value);
  }
  /// Of 32 bits, or of 16 by the prefix.
  std::int32_t immediate() { return number(short_ && !wide_ ? 2 : 4); }

  void prefixes() {
    for (; at_ < code_.size(); ++at_) {
      const auto value = static_cast<std::uint8_t>(code_[at_]);
      if (value == 0x66)
        short_ = true;
      else if (value == 0x67)
        short_address_ = true;
      else if ((value & 0xe7) != 0x26 && (value & 0xfe) != 0x64 && (value & 0xfe) != 0xf2 &&
               value != 0xf0)
        break;
    }
    if (at_ < code_.size() && (static_cast<std::uint8_t>(code_[at_]) & 0xf0) == 0x40) {
      const std::uint8_t rex = byte();
      wide_ = (rex & 8) != 0;
      high_reg_ = (rex & 4) != 0 ? 8 : 0;
      has_high_index_ = (rex & 2) != 0;
      high_rm_ = (rex & 1) != 0 ? 8 : 0;
    }
  }

  void modrm() {
    const std::uint8_t value = byte();
    mod_ = value >> 6;
    field_ = value >> 3 & 7;
    reg_ = static_cast<std::uint8_t>(field_ + high_reg_);
    rm_ = static_cast<std::uint8_t>((value & 7) + high_rm_);
    if (mod_ == 3) return;
    base_ = rm_;
    std::size_t size = mod_ == 1 ? 1 : mod_ == 2 ? 4 : 0;
    is_relative_ = mod_ == 0 && (value & 7) == 5;
    if ((value & 7) == 4) {
      const std::uint8_t sib = byte();
      base_ = static_cast<std::uint8_t>((sib & 7) + high_rm_);
      if ((sib >> 3 & 7) != 4 || has_high_index_) base_ = no_register;
      if ((sib & 7) == 5 && mod_ == 0) size = 4, base_ = no_register;
    } else if ((value & 7) == 5 && mod_ == 0) {
      size = 4, base_ = no_register;
    }
    displacement_ = number(size);
  }

  void set(Op kind, std::uint8_t reg = no_register, std::uint8_t base = no_register,
           std::int32_t value = 0) {
    out_.kind = kind, out_.reg = reg, out_.base = base, out_.value = value;
  }
  void relative(Op kind, std::size_t size) { set(kind, no_register, 0, number(size)); }

  void vector(std::uint8_t opcode) {
    std::uint8_t map = 1;
    if (opcode == 0xc5) {
      byte();
    } else {
      map = byte() & (opcode == 0xc4 ? 0x1f : 7);
      byte();
      if (opcode == 0x62) byte();
    }
    const std::uint8_t what = byte();
    if (map < 1 || map > 3) failed_ = opcode == 0xc4 || failed_;
    if (map == 1 && what == 0x77) return;
    modrm();
    if (map == 3 || (map == 1 && has_immediate(what))) byte();
  }

  static bool has_immediate(std::uint8_t opcode) {
    return (opcode >= 0x70 && opcode <= 0x73) || opcode == 0xa4 || opcode == 0xac ||
           opcode == 0xba || opcode == 0xc2 || (opcode >= 0xc4 && opcode <= 0xc6) || opcode == 0x0f;
  }

  void two_bytes() {
    const std::uint8_t opcode = byte();
    if (opcode == 0x38 || opcode == 0x3a) {
      byte();
      modrm();
      if (opcode == 0x3a) byte();
      return;
    }
    if (opcode == 0x05) return set(Op::syscall);
    if (opcode == 0x0b) return set(Op::stop);
    if ((opcode & 0xf0) == 0x80) return relative(Op::branch, 4);
    const bool is_alone = (opcode >= 0x06 && opcode <= 0x0c) || opcode == 0x0e ||
                          (opcode & 0xf8) == 0x30 || opcode == 0x77 ||
                          (opcode >= 0xa0 && opcode <= 0xa2) ||
                          (opcode >= 0xa8 && opcode <= 0xaa) || (opcode & 0xf8) == 0xc8;
    if (is_alone) return;
    modrm();
    if (has_immediate(opcode)) byte();
    if (opcode == 0x1f) set(Op::nop);
    // cmov, and bytes and words with zeros or the sign
    if ((opcode & 0xf0) == 0x40 || (opcode & 0xf6) == 0xb6) set(Op::clobber, reg_);
  }

  /// add, or, adc, sbb, and, sub, xor, cmp between registers and memory.
  void arithmetic(std::uint8_t opcode) {
    const std::uint8_t low = opcode & 7;
    if (low == 4 || low == 5) {
      low == 4 ? byte() : immediate();
      if (opcode < 0x38) set(Op::clobber, rax);
      return;
    }
    if (low > 5) return void(failed_ = true);
    modrm();
    const std::uint8_t target = (low & 2) != 0 ? reg_ : mod_ == 3 ? rm_ : no_register;
    if ((opcode & 0x38) == 0x38 || target == no_register) return;
    if ((opcode == 0x31 || opcode == 0x33) && mod_ == 3 && reg_ == rax && rm_ == rax)
      return set(Op::constant, rax, no_register, 0);
    set(Op::clobber, target);
  }

  void move(std::uint8_t opcode) {
    modrm();
    if (opcode == 0x8b) {
      if (!wide_) return set(Op::clobber, reg_);
      if (mod_ == 3) return set(Op::move, reg_, rm_);
      return base_ == no_register ? set(Op::clobber, reg_)
                                  : set(Op::load, reg_, base_, displacement_);
    }
    if (mod_ == 3) return wide_ ? set(Op::move, rm_, reg_) : set(Op::clobber, rm_);
    if (wide_ && base_ != no_register) set(Op::store, reg_, base_, displacement_);
  }

  void group_ff() {
    modrm();
    if (field_ == 2) set(Op::call);
    if (field_ == 4) {
      if (mod_ == 3) return set(Op::jump, rm_);
      if (is_relative_) return set(Op::tail);
      base_ == no_register ? set(Op::table, no_register, no_register, displacement_)
                           : set(Op::jump);
    }
    if (field_ == 6) set(Op::push);
    if (field_ == 3 || field_ == 5) set(Op::stop);
    if (field_ < 2 && mod_ == 3) set(Op::clobber, rm_);
  }

  void one_byte(std::uint8_t opcode) {
    if (opcode < 0x40) return arithmetic(opcode);
    const std::uint8_t low = opcode & 7;
    switch (opcode >> 3) {
      case 0x50 >> 3:
        return set(Op::push, static_cast<std::uint8_t>(low + high_rm_));
      case 0x58 >> 3:
        return set(Op::pop, static_cast<std::uint8_t>(low + high_rm_));
      case 0x70 >> 3:
      case 0x78 >> 3:
        return relative(Op::branch, 1);
      case 0xb0 >> 3:
        if (const std::int32_t value = number(1); low + high_rm_ == rax)
          set(Op::constant, rax, no_register, value & 0xff);
        return;
      case 0xb8 >> 3: {
        const std::int32_t value = wide_ ? number(8) : immediate();
        const auto target = static_cast<std::uint8_t>(low + high_rm_);
        return target == rax ? set(Op::constant, rax, no_register, value)
                             : set(Op::clobber, target);
      }
      case 0xd8 >> 3:
        return modrm();
      case 0x90 >> 3:
        return low + high_rm_ == rax ? set(Op::nop)
                                     : set(Op::clobber, static_cast<std::uint8_t>(low + high_rm_));
      default:
        return single(opcode);
    }
  }

  void single(std::uint8_t opcode) {
    switch (opcode) {
      case 0x63:
        modrm();
        return set(Op::clobber, reg_);
      case 0x68:
        immediate();
        return set(Op::push);
      case 0x6a:
        byte();
        return set(Op::push);
      case 0x69:
      case 0x6b:
        modrm();
        opcode == 0x69 ? immediate() : byte();
        return set(Op::clobber, reg_);
      case 0x6c:
      case 0x6d:
      case 0x6e:
      case 0x6f:
        return;
      case 0x80:
      case 0x81:
      case 0x83: {
        modrm();
        const std::int32_t value = opcode == 0x81 ? immediate() : number(1);
        if (mod_ != 3 || field_ == 7) return;
        if (wide_ && (field_ == 0 || field_ == 5))
          return set(Op::add, rm_, no_register, field_ == 0 ? value : -value);
        return set(Op::clobber, rm_);
      }
      case 0x84:
      case 0x85:
        return modrm();
      case 0x86:
      case 0x87:
        modrm();
        return set(Op::clobber, mod_ == 3 && rm_ == rsp ? rsp : reg_);
      case 0x88:
      case 0x8a:
      case 0x8c:
      case 0x8e:
        return modrm();
      case 0x89:
      case 0x8b:
        return move(opcode);
      case 0x8d:
        modrm();
        if (wide_ && is_relative_) return set(Op::address, reg_, no_register, displacement_);
        return wide_ && base_ != no_register ? set(Op::move, reg_, base_, displacement_)
                                             : set(Op::clobber, reg_);
      case 0x8f:
        modrm();
        return set(Op::pop);
      case 0x98:
      case 0x99:
      case 0x9b:
      case 0x9e:
      case 0x9f:
        return;
      case 0x9c:
        return set(Op::push);
      case 0x9d:
        return set(Op::pop);
      case 0xa0:
      case 0xa1:
      case 0xa2:
      case 0xa3:
        number(short_address_ ? 4 : 8);
        return;
      case 0xa8:
      case 0xcd:
      case 0xe4:
      case 0xe5:
      case 0xe6:
      case 0xe7:
        byte();
        return;
      case 0xa9:
        immediate();
        return;
      case 0xa4:
      case 0xa5:
      case 0xa6:
      case 0xa7:
      case 0xaa:
      case 0xab:
      case 0xac:
      case 0xad:
      case 0xae:
      case 0xaf:
        return;
      case 0xc0:
      case 0xc1:
      case 0xc6:
        modrm();
        byte();
        return;
      case 0xc7:
        modrm();
        immediate();
        if (mod_ == 3) rm_ == rax ? set(Op::constant, rax, no_register, 0) : set(Op::clobber, rm_);
        return;
      case 0xc2:
        number(2);
        return set(Op::ret);
      case 0xc3:
        return set(Op::ret);
      case 0xc8:
        number(3);
        return set(Op::clobber, rsp);
      case 0xc9:
        return set(Op::leave);
      case 0xcc:
      case 0xf4:
        return set(Op::stop);
      case 0xca:
        number(2);
        return set(Op::stop);
      case 0xcb:
      case 0xcf:
        return set(Op::stop);
      case 0xd0:
      case 0xd1:
      case 0xd2:
      case 0xd3:
      case 0xfe:
        return modrm();
      case 0xd7:
      case 0xec:
      case 0xed:
      case 0xee:
      case 0xef:
      case 0xf1:
      case 0xf5:
      case 0xf8:
      case 0xf9:
      case 0xfa:
      case 0xfb:
      case 0xfc:
      case 0xfd:
        return;
      case 0xe0:
      case 0xe1:
      case 0xe2:
      case 0xe3:
        return relative(Op::branch, 1);
      case 0xe8:
        return relative(Op::call, 4);
      case 0xe9:
        return relative(Op::jump, 4);
      case 0xeb:
        return relative(Op::jump, 1);
      case 0xf6:
      case 0xf7:
        modrm();
        if (field_ < 2) opcode == 0xf6 ? byte() : immediate();
        return;
      case 0xff:
        return group_ff();
      default:
        failed_ = true;
    }
  }

  std::span<const std::byte> code_;
  std::size_t at_ = 0;
  bool failed_ = false;
  bool is_relative_ = false;
  bool short_ = false, short_address_ = false, wide_ = false, has_high_index_ = false;
  std::uint8_t high_reg_ = 0, high_rm_ = 0;
  std::uint8_t mod_ = 0, field_ = 0, reg_ = 0, rm_ = 0, base_ = no_register;
  std::int32_t displacement_ = 0;
  Instruction out_;
};

}  // namespace

Instruction decode(std::span<const std::byte> code) {
  return Decoder(code).run();
}

namespace {

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
    return number == rsp ? &stack : number == rbp ? &frame : nullptr;
  }
  [[nodiscard]] Value get(std::uint8_t number, std::int64_t plus) const {
    const Value* value = find(number);
    if (value == nullptr ||
        (value->base != Value::Base::stack && value->base != Value::Base::frame))
      return {};
    return {value->base, value->offset + plus};
  }
  void set(std::uint8_t number, Value value) {
    if (number == rsp) stack = value;
    if (number == rbp) frame = value;
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
      if (code.reg == rbp && frame == Value{Value::Base::frame, 0}) stored = stack;
      return;
    case Op::pop:
      if (code.reg == rbp) frame = word_at(stack);
      code.reg == rsp ? set(rsp, {}) : move_stack(8);
      if (code.reg == rax) eax = no_value;
      return;
    case Op::add:
      set(code.reg, get(code.reg, code.value));
      break;
    case Op::move:
      set(code.reg, get(code.base, code.value));
      break;
    case Op::load:
      set(code.reg, code.reg == rbp ? word_at(get(code.base, code.value)) : Value{});
      break;
    case Op::store:
      if (code.reg == rbp && frame == Value{Value::Base::frame, 0})
        stored = get(code.base, code.value);
      return;
    case Op::leave:
      stack = get(rbp, 0);
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
      if (code.reg == rsp) stack = {};
      break;
    default:
      return;
  }
  if (code.reg == rax) eax = no_value;
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
  return call.kind == Op::call && call.length == call_bytes && call.base != no_register &&
         !returns(pc + static_cast<std::uint64_t>(std::int64_t{call.value}), max_depth);
}

/// Whether what is behind a call only fills up to where a function may begin.
bool CodeRules::ends_in_padding(Address address) {
  Instruction code = at(address);
  if (code.kind != Op::nop) return false;
  for (; code.kind == Op::nop; code = at(address)) address += code.length;
  return address % code_alignment == 0;
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
      const bool is_direct = code.base != no_register;
      if (code.length == 0 || code.kind == Op::ret || code.kind == Op::tail ||
          code.kind == Op::table || (code.kind == Op::jump && !is_direct))
        return true;
      if (code.kind == Op::stop) break;
      if (code.kind == Op::syscall && is_exit(eax)) break;
      if (code.kind == Op::call && is_direct && !returns(target, depth - 1)) break;
      if (code.kind == Op::constant)
        eax = code.value;
      else if (code.kind == Op::call || code.reg == rax)
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
    if (code.kind == Op::call) return code.base != no_register && !returns(target, max_depth);
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
    const bool is_direct = code.base != no_register;
    if (code.length == 0 || code.kind == Op::stop) return;
    const bool is_indirect_jump = code.kind == Op::jump && !is_direct;
    // By a register: a tail call, where the frame has been left, or where a function only does that.
    const bool has_left =
        path.stack != Value{Value::Base::stack, 0} || path.at % code_alignment == 0;
    const bool is_tail = is_indirect_jump && code.reg != no_register && path.table == 0 &&
                         has_left && !follows_sum(path.at);
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
