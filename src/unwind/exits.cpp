#include "unwind/exits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>

#include "base/memory.hpp"

namespace vitrine::unwind {
namespace {

using Op = Instruction::Kind;

constexpr std::uint64_t max_function_bytes = 1U << 20;
constexpr std::size_t max_exits = 512;
constexpr std::size_t max_parts = 16;
/// Between the computation of a place in a switch and the jump to it.
constexpr std::size_t switch_instructions = 8;

std::uint8_t value(std::byte one) {
  return std::to_integer<std::uint8_t>(one);
}

/// Prefixes of an instruction, and what is behind them.
struct Encoded {
  std::uint8_t rex = 0;
  bool is_notrack = false;
  std::span<const std::byte> rest;

  explicit Encoded(std::span<const std::byte> code) : rest(code) {
    constexpr std::array<std::uint8_t, 5> prefixes{0x3e, 0x2e, 0x66, 0xf2, 0xf3};
    while (!rest.empty() &&
           std::find(prefixes.begin(), prefixes.end(), value(rest[0])) != prefixes.end()) {
      is_notrack = is_notrack || value(rest[0]) == 0x3e;
      rest = rest.subspan(1);
    }
    if (!rest.empty() && (value(rest[0]) & 0xf0) == 0x40) {
      rex = value(rest[0]);
      rest = rest.subspan(1);
    }
  }
  [[nodiscard]] std::uint8_t at(std::size_t i) const {
    return i < rest.size() ? value(rest[i]) : 0;
  }
  /// Of memory: whether a scaled index is part of the address, as in tables.
  [[nodiscard]] bool has_index() const {
    const std::uint8_t modrm = at(1);
    if ((modrm & 0xc0) == 0xc0 || (modrm & 7) != 4) return false;
    const std::uint8_t index = (at(2) >> 3 & 7) | (rex & 2) << 2;
    return index != Instruction::rsp;
  }
  /// Whether it puts a place of a table into `reg`: adds to it, or loads it by an index.
  [[nodiscard]] bool computes(std::uint8_t reg) const {
    const std::uint8_t modrm = at(1);
    const auto its_reg = static_cast<std::uint8_t>((modrm >> 3 & 7) | (rex & 4) << 1);
    const auto its_rm = static_cast<std::uint8_t>((modrm & 7) | (rex & 1) << 3);
    switch (at(0)) {
      case 0x01:  // add reg, r/m
        return (modrm & 0xc0) == 0xc0 && its_rm == reg;
      case 0x03:  // add r/m, reg
        return its_reg == reg;
      case 0x63:  // movslq
      case 0x8b:  // mov
        return its_reg == reg && has_index();
      default:
        return false;
    }
  }
};

class Sweep {
 public:
  Sweep(const ReadCode& read, const PartAt& part_at, const LeftAt& left_at)
      : read_(read), part_at_(part_at), left_at_(left_at) {}

  Result<std::vector<Exit>> run(CodeRange function) {
    TRY(add_part(function));
    // Parts that are jumped to are swept, too; so is what these jump to.
    for (std::size_t i = 0; i < leaving_.size(); ++i) {
      const Jump jump = leaving_[i];
      if (is_inside(jump.target)) continue;
      if (const auto part = part_at_(jump.target)) {
        if (parts_.size() == max_parts) return fail(ErrorCode::limit, "it has too many parts");
        TRY(add_part(*part));
        if (is_inside(jump.target)) continue;
      }
      if (jump.is_conditional)
        return fail(
            ErrorCode::unsupported,
            fmt::format("its jump at {} may lead to another function, or not", hex(jump.from)));
    }
    for (const Jump& jump : leaving_)
      if (!is_inside(jump.target)) exits_[jump.from] = false;
    for (const Address target : targets_)
      if (is_inside(target) && !starts_.contains(target))
        return fail(ErrorCode::unsupported,
                    fmt::format("its code cannot be disassembled: a jump leads into an "
                                "instruction, at {}",
                                hex(target)));
    if (exits_.size() > max_exits)
      return fail(ErrorCode::limit, fmt::format("it is left at {} places", exits_.size()));
    TRY(check_frames());
    std::vector<Exit> found;
    for (const auto& [address, is_return] : exits_) found.push_back({address, is_return});
    for (const Address address : by_table_)
      if (left_at_ && left_at_(address)) found.push_back({address, false, true});
    std::sort(found.begin(), found.end(),
              [](const Exit& a, const Exit& b) { return a.address < b.address; });
    return found;
  }

 private:
  struct Jump {
    Address from = 0, target = 0;
    bool is_conditional = false;
  };

  [[nodiscard]] bool is_inside(Address address) const {
    return std::any_of(parts_.begin(), parts_.end(), [&](const CodeRange& part) {
      return address >= part.start && address < part.end;
    });
  }

  /// Call frame information knows what the compiler meant: a jump to a part without a symbol keeps the
  /// frame, and its rows begin with instructions.
  Result<void> check_frames() const {
    if (!left_at_) return {};
    for (const auto& [address, is_return] : exits_) {
      const auto row = left_at_(address);
      if (!row)
        return fail(
            ErrorCode::unsupported,
            fmt::format("it may go on after {}, by its call frame information", hex(address)));
      if (is_inside(*row) && !starts_.contains(*row))
        return fail(ErrorCode::unsupported,
                    fmt::format("its code cannot be disassembled: call frame information begins "
                                "within an instruction, at {}",
                                hex(*row)));
    }
    return {};
  }

  Result<void> add_part(CodeRange part) {
    if (part.end <= part.start) return fail(ErrorCode::unsupported, "its size is not known");
    bytes_ += part.end - part.start;
    if (part.end - part.start > max_function_bytes || bytes_ > max_function_bytes)
      return fail(ErrorCode::limit, "it is larger than a megabyte");
    for (const CodeRange& other : parts_)
      if (part.start < other.end && other.start < part.end)
        return fail(ErrorCode::unsupported, "its parts overlap");
    parts_.push_back(part);
    code_.resize(static_cast<std::size_t>(part.end - part.start));
    if (read_(part.start, code_) != code_.size())
      return fail(ErrorCode::unsupported, "its code is not in the file");
    before_.clear();
    for (std::size_t at = 0; at < code_.size();) {
      const auto rest = std::span<const std::byte>(code_).subspan(at);
      const Instruction code = decode(rest.first(std::min(rest.size(), instruction_bytes)));
      const Address address = part.start + at;
      if (code.length == 0 || code.length > rest.size())
        return fail(ErrorCode::unsupported,
                    fmt::format("its code cannot be disassembled at {}", hex(address)));
      starts_.insert(address);
      take(code, address, rest.first(code.length));
      before_.push_back(rest.first(code.length));
      at += code.length;
    }
    return {};
  }

  void take(const Instruction& code, Address address, std::span<const std::byte> bytes) {
    switch (code.kind) {
      case Op::ret:
        exits_[address] = true;
        return;
      case Op::tail:
        exits_[address] = false;
        return;
      case Op::table:
        if (!Encoded(bytes).is_notrack) by_table_.push_back(address);
        return;
      case Op::branch:
      case Op::jump:
        break;
      default:
        return;
    }
    if (code.base == Instruction::no_register) {
      if (code.kind != Op::jump) return;
      switch (table_of(code, Encoded(bytes))) {
        case Table::none:
          exits_[address] = false;
          break;
        case Table::of_addresses:
          by_table_.push_back(address);
          break;
        case Table::of_a_switch:
          break;
      }
      return;
    }
    const Address target =
        address + code.length + static_cast<std::uint64_t>(std::int64_t{code.value});
    targets_.insert(target);
    if (!is_inside(target)) leaving_.push_back({address, target, code.kind == Op::branch});
  }

  enum class Table {
    none,
    of_a_switch,
    of_addresses,  ///< of functions, or of a switch in code that is not position-independent
  };

  /// By what table an indirect jump goes.
  [[nodiscard]] Table table_of(const Instruction& code, const Encoded& encoded) const {
    if (encoded.is_notrack) return Table::of_a_switch;
    if (code.reg == Instruction::no_register)
      return encoded.has_index() ? Table::of_addresses : Table::none;
    Table found = Table::none;
    const std::size_t first = before_.size() - std::min(before_.size(), switch_instructions);
    for (std::size_t i = first; i < before_.size(); ++i) {
      const Encoded before(before_[i]);
      if (!before.computes(code.reg)) continue;
      if (before.at(0) != 0x8b) return Table::of_a_switch;  // distances, from the table
      found = Table::of_addresses;
    }
    return found;
  }

  const ReadCode& read_;
  const PartAt& part_at_;
  const LeftAt& left_at_;
  std::vector<CodeRange> parts_;
  std::uint64_t bytes_ = 0;                         ///< of the parts
  std::vector<std::byte> code_;                     ///< of the part that is swept
  std::vector<std::span<const std::byte>> before_;  ///< its instructions so far
  std::set<Address> starts_, targets_;              ///< of instructions; of jumps
  std::vector<Jump> leaving_;                       ///< of the part that they are in
  std::map<Address, bool> exits_;                   ///< whether it is a return
  std::vector<Address> by_table_;                   ///< jumps by tables of addresses
};

}  // namespace

Result<std::vector<Exit>> find_exits(const ReadCode& read, CodeRange function,
                                     const PartAt& part_at, const LeftAt& left_at) {
  return Sweep(read, part_at, left_at).run(function);
}

std::optional<Address> find_jump_to_start(const ReadCode& read, CodeRange function) {
  if (function.end <= function.start || function.end - function.start > max_function_bytes)
    return std::nullopt;
  std::vector<std::byte> bytes(static_cast<std::size_t>(function.end - function.start));
  if (read(function.start, bytes) != bytes.size()) return std::nullopt;
  for (std::span<const std::byte> rest = bytes; !rest.empty();) {
    const Instruction code = decode(rest.first(std::min(rest.size(), instruction_bytes)));
    if (code.length == 0 || code.length > rest.size()) return std::nullopt;
    const Address at = function.end - rest.size();
    const bool jumps = code.kind == Op::branch || code.kind == Op::jump;
    if (jumps && code.base != Instruction::no_register &&
        at + code.length + static_cast<std::uint64_t>(std::int64_t{code.value}) == function.start)
      return at;
    rest = rest.subspan(code.length);
  }
  return std::nullopt;
}

}  // namespace vitrine::unwind
