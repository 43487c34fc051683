#include "unwind/cfi_program.hpp"

#include <dwarf.h>

#include "base/limits.hpp"
#include "unwind/cfi_pointer.hpp"

namespace vitrine::unwind {
namespace {

using Kind = RegisterRule::Kind;

constexpr std::uint8_t negate_ra_state_with_pc = 0x2c;  // DW_CFA_AARCH64_*, newer than <dwarf.h>
constexpr std::uint8_t negate_ra_state = 0x2d;

/// Runs the program of a CIE, then that of an FDE, up to the row of an address.
class Interpreter {
 public:
  /// `passing`: gets the rules before that one; null: nobody wants them.
  Interpreter(const FrameEntry& entry, Address wanted, Machine machine, const TakeRule* passing)
      : common_(*entry.common),
        machine_(machine),
        at_(entry.start),
        wanted_(wanted),
        passing_(passing) {}

  /// Both programs. False: one makes no sense before the address.
  bool run(const FrameEntry& entry) {
    if (!run(entry.common->program)) return false;
    initial_ = now_.registers;
    return run(entry.program);
  }

  [[nodiscard]] Address at() const { return at_; }

  /// The row that it has come to, without its expressions.
  [[nodiscard]] Row row() const;
  [[nodiscard]] Rule rule() const { return compact(row(), machine_); }
  std::vector<std::byte> take_expressions() { return std::move(expressions_); }

 private:
  using RuleArray = std::array<RegisterRule, register_count>;
  struct State {
    RegisterRule cfa;
    std::int64_t cfa_offset = 0;
    RuleArray registers;
  };

  bool run(std::span<const std::byte> program) {
    Cursor cursor(program);
    while (!cursor.at_end() && !arrived_)
      if (!step(cursor, cursor.u8())) return false;
    return !cursor.failed();
  }
  bool step(Cursor& cursor, std::uint8_t code);
  bool step_extended(Cursor& cursor, std::uint8_t code);

  bool advance(std::uint64_t delta) {
    const std::uint64_t distance = delta * common_.code_alignment;
    arrived_ = distance > wanted_ - at_;
    if (arrived_) return true;
    const Address start = at_;
    at_ += distance;
    return passing_ == nullptr || distance == 0 || (*passing_)(start, at_, rule());
  }

  /// Registers beyond those that we keep (vectors) have rules that nobody asks for.
  bool set(std::uint64_t number, Kind kind, std::int64_t value = 0, std::uint32_t size = 0) {
    if (number < register_count)
      now_.registers[static_cast<std::size_t>(number)] = {kind, size, value};
    return true;
  }
  bool set_offset(std::uint64_t number, Kind kind, std::uint64_t factored) {
    return set(number, kind, scaled(factored));
  }
  bool restore(std::uint64_t number) {
    if (number < register_count)
      now_.registers[static_cast<std::size_t>(number)] = initial_[static_cast<std::size_t>(number)];
    return true;
  }
  bool set_expression(std::uint64_t number, Kind kind, Cursor& cursor) {
    const RegisterRule rule = expression(kind, cursor);
    return set(number, rule.kind, rule.value, rule.size);
  }
  RegisterRule expression(Kind kind, Cursor& cursor) {
    const auto bytes = cursor.take(cursor.uleb());
    const auto start = static_cast<std::int64_t>(expressions_.size());
    expressions_.insert(expressions_.end(), bytes.begin(), bytes.end());
    return {kind, static_cast<std::uint32_t>(bytes.size()), start};
  }
  bool set_cfa(std::uint64_t number, std::int64_t offset) {
    const bool known = number < register_count;
    now_.cfa = {known ? Kind::in_register : Kind::undefined, 0,
                known ? static_cast<std::int64_t>(number) : 0};
    now_.cfa_offset = offset;
    return true;
  }
  [[nodiscard]] std::int64_t scaled(std::uint64_t factored) const {
    return static_cast<std::int64_t>(factored * static_cast<std::uint64_t>(common_.data_alignment));
  }

  const CommonEntry& common_;
  Machine machine_;
  Address at_;
  Address wanted_;
  const TakeRule* passing_;
  bool arrived_ = false;
  State now_;
  RuleArray initial_;
  std::vector<State> remembered_;
  std::vector<std::byte> expressions_;
};

bool Interpreter::step(Cursor& cursor, std::uint8_t code) {
  const std::uint64_t operand = code & 0x3f;
  switch (code & 0xc0) {
    case DW_CFA_advance_loc:
      return advance(operand);
    case DW_CFA_offset:
      return set_offset(operand, Kind::at_cfa, cursor.uleb());
    case DW_CFA_restore:
      return restore(operand);
    default:
      return step_extended(cursor, code);
  }
}

// An operand that is read before another is a statement of its own: arguments have no order.
bool Interpreter::step_extended(Cursor& cursor, std::uint8_t code) {
  const auto number = [&] { return cursor.uleb(); };
  const auto factored = [&] { return static_cast<std::uint64_t>(cursor.sleb()); };
  std::uint64_t r = 0;
  switch (code) {
    case DW_CFA_nop:
      return true;
    case DW_CFA_set_loc: {
      // Its place in the section is not known here, and no compiler for these machines writes it.
      return false;
    }
    case DW_CFA_advance_loc1:
      return advance(cursor.u8());
    case DW_CFA_advance_loc2:
      return advance(cursor.number<std::uint16_t>());
    case DW_CFA_advance_loc4:
      return advance(cursor.number<std::uint32_t>());
    case DW_CFA_offset_extended:
      r = number();
      return set_offset(r, Kind::at_cfa, number());
    case DW_CFA_offset_extended_sf:
      r = number();
      return set_offset(r, Kind::at_cfa, factored());
    case DW_CFA_GNU_negative_offset_extended:
      r = number();
      return set_offset(r, Kind::at_cfa, 0 - number());
    case DW_CFA_val_offset:
      r = number();
      return set_offset(r, Kind::cfa_plus, number());
    case DW_CFA_val_offset_sf:
      r = number();
      return set_offset(r, Kind::cfa_plus, factored());
    case DW_CFA_restore_extended:
      return restore(number());
    case DW_CFA_undefined:
      return set(number(), Kind::undefined);
    case DW_CFA_same_value:
      return set(number(), Kind::same);
    case DW_CFA_register: {
      r = number();
      const std::uint64_t from = number();
      return from < register_count ? set(r, Kind::in_register, static_cast<std::int64_t>(from))
                                   : set(r, Kind::undefined);
    }
    case DW_CFA_expression:
      r = number();
      return set_expression(r, Kind::at_expression, cursor);
    case DW_CFA_val_expression:
      r = number();
      return set_expression(r, Kind::expression, cursor);
    case DW_CFA_def_cfa:
      r = number();
      return set_cfa(r, static_cast<std::int64_t>(number()));
    case DW_CFA_def_cfa_sf:
      r = number();
      return set_cfa(r, scaled(factored()));
    case DW_CFA_def_cfa_register:
      return now_.cfa.kind == Kind::in_register && set_cfa(number(), now_.cfa_offset);
    case DW_CFA_def_cfa_offset:
      now_.cfa_offset = static_cast<std::int64_t>(number());
      return true;
    case DW_CFA_def_cfa_offset_sf:
      now_.cfa_offset = scaled(factored());
      return true;
    case DW_CFA_def_cfa_expression:
      now_.cfa = expression(Kind::expression, cursor);
      now_.cfa_offset = 0;
      return true;
    case DW_CFA_remember_state:
      if (remembered_.size() >= limits::cfi_states) return false;
      remembered_.push_back(now_);
      return true;
    case DW_CFA_restore_state:
      if (remembered_.empty()) return false;
      now_ = remembered_.back();
      remembered_.pop_back();
      return true;
    case DW_CFA_GNU_args_size:
      number();
      return true;
    case negate_ra_state:
    case negate_ra_state_with_pc:
      return machine_ == Machine::aarch64;  // code_address takes signatures off anyway
    default:
      return false;
  }
}

Row Interpreter::row() const {
  Row row;
  row.cfa = now_.cfa;
  row.cfa_offset = now_.cfa_offset;
  row.registers = now_.registers;
  row.is_signal = common_.is_signal;
  const auto column = static_cast<std::size_t>(common_.result_column);
  if (const std::size_t usual = roles_of(machine_).result; column != usual) {
    // A few functions of C libraries are called with the return address elsewhere.
    RegisterRule rule = row.registers[column];
    if (rule.kind == Kind::unspecified || rule.kind == Kind::same)
      rule = {Kind::in_register, 0, static_cast<std::int64_t>(column)};
    row.registers[usual] = rule;
  }
  return row;
}

}  // namespace

std::optional<Row> row_at(const FrameEntry& entry, Address address, Machine machine) {
  if (entry.common->result_column >= register_count) return std::nullopt;
  Interpreter interpreter(entry, address, machine, nullptr);
  if (!interpreter.run(entry)) return std::nullopt;
  Row row = interpreter.row();
  row.expressions = interpreter.take_expressions();
  return row;
}

void rules_of(const FrameEntry& entry, Machine machine, const TakeRule& take) {
  if (entry.common->result_column >= register_count || entry.size == 0) return;
  const Address end = entry.start + entry.size;
  Interpreter interpreter(entry, end - 1, machine, &take);
  if (interpreter.run(entry)) take(interpreter.at(), end, interpreter.rule());
}

}  // namespace vitrine::unwind
