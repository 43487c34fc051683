#include "unwind/instruction.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace vitrine::unwind {
namespace {

using Op = Instruction::Kind;

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
      has_rex_ = true;
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
      if ((sib >> 3 & 7) != 4 || has_high_index_) base_ = Instruction::no_register;
      if ((sib & 7) == 5 && mod_ == 0) size = 4, base_ = Instruction::no_register;
    } else if ((value & 7) == 5 && mod_ == 0) {
      size = 4, base_ = Instruction::no_register;
    }
    displacement_ = number(size);
  }

  /// Of an instruction on bytes: 4 to 7 are ah, ch, dh and bh, unless a REX prefix makes them spl to dil.
  [[nodiscard]] std::uint8_t byte_register(std::uint8_t number) const {
    return !has_rex_ && number >= 4 && number < 8 ? number - 4 : number;
  }

  void set(Op kind, std::uint8_t reg = Instruction::no_register,
           std::uint8_t base = Instruction::no_register, std::int32_t value = 0) {
    out_.kind = kind, out_.reg = reg, out_.base = base, out_.value = value;
  }
  void relative(Op kind, std::size_t size) { set(kind, Instruction::no_register, 0, number(size)); }

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
    // Others have immediates of which nothing is known here: XOP, APX.
    if (map < 1 || (opcode == 0x62 ? map == 4 || map == 7 : map > 3)) failed_ = true;
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
    if (opcode == 0x78 || opcode == 0x79)
      return void(failed_ = true);  // SSE4a, or virtual machines
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
      if (opcode < 0x38) set(Op::clobber, Instruction::rax);
      return;
    }
    if (low > 5) return void(failed_ = true);
    modrm();
    std::uint8_t target = (low & 2) != 0 ? reg_ : mod_ == 3 ? rm_ : Instruction::no_register;
    if ((low & 1) == 0 && target != Instruction::no_register) target = byte_register(target);
    if ((opcode & 0x38) == 0x38 || target == Instruction::no_register) return;
    if ((opcode == 0x31 || opcode == 0x33) && mod_ == 3 && reg_ == Instruction::rax &&
        rm_ == Instruction::rax)
      return set(Op::constant, Instruction::rax, Instruction::no_register, 0);
    set(Op::clobber, target);
  }

  void move(std::uint8_t opcode) {
    modrm();
    if (opcode == 0x8b) {
      if (!wide_) return set(Op::clobber, reg_);
      if (mod_ == 3) return set(Op::move, reg_, rm_);
      return base_ == Instruction::no_register ? set(Op::clobber, reg_)
                                               : set(Op::load, reg_, base_, displacement_);
    }
    if (mod_ == 3) return wide_ ? set(Op::move, rm_, reg_) : set(Op::clobber, rm_);
    if (wide_ && base_ != Instruction::no_register) set(Op::store, reg_, base_, displacement_);
  }

  void group_ff() {
    modrm();
    if (field_ == 2) set(Op::call);
    if (field_ == 4) {
      if (mod_ == 3) return set(Op::jump, rm_);
      if (is_relative_) return set(Op::tail);
      base_ == Instruction::no_register
          ? set(Op::table, Instruction::no_register, Instruction::no_register, displacement_)
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
        if (const std::int32_t value = number(1); low + high_rm_ == Instruction::rax)
          set(Op::constant, Instruction::rax, Instruction::no_register, value & 0xff);
        return;
      case 0xb8 >> 3: {
        const std::int32_t value = wide_ ? number(8) : immediate();
        const auto target = static_cast<std::uint8_t>(low + high_rm_);
        return target == Instruction::rax
                   ? set(Op::constant, Instruction::rax, Instruction::no_register, value)
                   : set(Op::clobber, target);
      }
      case 0xd8 >> 3:
        return modrm();
      case 0x90 >> 3:
        return low + high_rm_ == Instruction::rax
                   ? set(Op::nop)
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
          return set(Op::add, rm_, Instruction::no_register, field_ == 0 ? value : -value);
        return set(Op::clobber, opcode == 0x80 ? byte_register(rm_) : rm_);
      }
      case 0x84:
      case 0x85:
        return modrm();
      case 0x86:
        modrm();
        return set(Op::clobber, byte_register(reg_));
      case 0x87:
        modrm();
        return set(Op::clobber, mod_ == 3 && rm_ == Instruction::rsp ? Instruction::rsp : reg_);
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
        if (wide_ && is_relative_)
          return set(Op::address, reg_, Instruction::no_register, displacement_);
        return wide_ && base_ != Instruction::no_register
                   ? set(Op::move, reg_, base_, displacement_)
                   : set(Op::clobber, reg_);
      case 0x8f:
        modrm();
        if (field_ != 0) failed_ = true;  // XOP
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
        if (mod_ == 3)
          rm_ == Instruction::rax ? set(Op::constant, Instruction::rax, Instruction::no_register, 0)
                                  : set(Op::clobber, rm_);
        return;
      case 0xc2:
        number(2);
        return set(Op::ret);
      case 0xc3:
        return set(Op::ret);
      case 0xc8:
        number(3);
        return set(Op::clobber, Instruction::rsp);
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
  bool short_ = false, short_address_ = false, wide_ = false, has_rex_ = false,
       has_high_index_ = false;
  std::uint8_t high_reg_ = 0, high_rm_ = 0;
  std::uint8_t mod_ = 0, field_ = 0, reg_ = 0, rm_ = 0, base_ = Instruction::no_register;
  std::int32_t displacement_ = 0;
  Instruction out_;
};

}  // namespace

Instruction decode(std::span<const std::byte> code) {
  return Decoder(code).run();
}

}  // namespace vitrine::unwind
