#include "unwind/restore.hpp"

#include <dwarf.h>

#include <array>

#include "base/limits.hpp"
#include "unwind/cfi.hpp"

namespace vitrine::unwind {
namespace {

class Evaluation {
 public:
  Evaluation(std::span<const std::byte> operations, const Position& position, const Stack& stack)
      : cursor_(operations), position_(position), memory_(stack) {}

  void push(std::uint64_t value) {
    if (depth_ == values_.size()) return stop(End::no_rule);
    values_[depth_++] = value;
  }

  tl::expected<std::uint64_t, End> run() {
    for (std::size_t n = 0; !cursor_.at_end() && !stopped_; ++n) {
      if (n == limits::expression_steps) stop(End::no_rule);
      step(cursor_.u8());
    }
    if (cursor_.failed() || depth_ == 0) stop(End::no_rule);
    if (stopped_) return tl::unexpected<End>(*stopped_);
    return values_[depth_ - 1];
  }

 private:
  void step(std::uint8_t code);
  void step_constant(std::uint8_t code);
  void step_unary(std::uint8_t code);
  void step_binary(std::uint8_t code);

  void stop(End why) {
    if (!stopped_) stopped_ = why;
  }
  std::uint64_t pop() {
    if (depth_ == 0) {
      stop(End::no_rule);
      return 0;
    }
    return values_[--depth_];
  }
  void push_register(std::uint64_t number, std::int64_t offset) {
    const auto value = position_.get(number);
    if (!value) return stop(End::no_rule);
    push(*value + static_cast<std::uint64_t>(offset));
  }
  void push_nth(std::size_t n) {
    if (n >= depth_) return stop(End::no_rule);
    push(values_[depth_ - 1 - n]);
  }
  void rotate(std::size_t count) {
    if (count > depth_) return stop(End::no_rule);
    const auto top = values_.begin() + static_cast<std::ptrdiff_t>(depth_);
    std::rotate(top - static_cast<std::ptrdiff_t>(count), top - 1, top);
  }
  void dereference(std::uint64_t size) {
    const Address address = pop();
    std::uint64_t word = 0;
    if (size == 0 || size > 8 || stopped_) return stop(End::no_rule);
    if (!memory_.read(address, word)) return stop(End::truncated);
    push(size == 8 ? word : word & ((std::uint64_t{1} << 8 * size) - 1));
  }

  Cursor cursor_;
  const Position& position_;
  const Stack& memory_;
  std::array<std::uint64_t, limits::expression_depth> values_{};
  std::size_t depth_ = 0;
  std::optional<End> stopped_;
};

void Evaluation::step(std::uint8_t code) {
  if (code >= DW_OP_lit0 && code <= DW_OP_lit31) return push(code - DW_OP_lit0);
  if (code >= DW_OP_breg0 && code <= DW_OP_breg31)
    return push_register(code - DW_OP_breg0, cursor_.sleb());
  switch (code) {
    case DW_OP_nop:
      return;
    case DW_OP_bregx: {
      const std::uint64_t number = cursor_.uleb();
      return push_register(number, cursor_.sleb());
    }
    case DW_OP_deref:
      return dereference(8);
    case DW_OP_deref_size:
      return dereference(cursor_.u8());
    case DW_OP_dup:
      return push_nth(0);
    case DW_OP_over:
      return push_nth(1);
    case DW_OP_pick:
      return push_nth(cursor_.u8());
    case DW_OP_drop:
      pop();
      return;
    case DW_OP_swap:
      return rotate(2);
    case DW_OP_rot:
      return rotate(3);
    case DW_OP_skip:
      return cursor_.jump(cursor_.number<std::int16_t>());
    case DW_OP_bra: {
      const auto distance = cursor_.number<std::int16_t>();
      if (pop() != 0) cursor_.jump(distance);
      return;
    }
    case DW_OP_abs:
    case DW_OP_neg:
    case DW_OP_not:
    case DW_OP_plus_uconst:
      return step_unary(code);
    default:
      return code <= DW_OP_consts ? step_constant(code) : step_binary(code);
  }
}

void Evaluation::step_constant(std::uint8_t code) {
  const auto extended = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  switch (code) {
    case DW_OP_const1u:
      return push(cursor_.u8());
    case DW_OP_const1s:
      return push(extended(cursor_.number<std::int8_t>()));
    case DW_OP_const2u:
      return push(cursor_.number<std::uint16_t>());
    case DW_OP_const2s:
      return push(extended(cursor_.number<std::int16_t>()));
    case DW_OP_const4u:
      return push(cursor_.number<std::uint32_t>());
    case DW_OP_const4s:
      return push(extended(cursor_.number<std::int32_t>()));
    case DW_OP_const8u:
    case DW_OP_const8s:
      return push(cursor_.number<std::uint64_t>());
    case DW_OP_constu:
      return push(cursor_.uleb());
    case DW_OP_consts:
      return push(extended(cursor_.sleb()));
    default:
      return stop(End::no_rule);
  }
}

void Evaluation::step_unary(std::uint8_t code) {
  const std::uint64_t a = pop();
  switch (code) {
    case DW_OP_abs:
      return push(a >> 63 != 0 ? 0 - a : a);
    case DW_OP_neg:
      return push(0 - a);
    case DW_OP_not:
      return push(~a);
    default:
      return push(a + cursor_.uleb());
  }
}

void Evaluation::step_binary(std::uint8_t code) {
  const std::uint64_t b = pop(), a = pop();
  const auto sb = static_cast<std::int64_t>(b), sa = static_cast<std::int64_t>(a);
  switch (code) {
    case DW_OP_and:
      return push(a & b);
    case DW_OP_or:
      return push(a | b);
    case DW_OP_xor:
      return push(a ^ b);
    case DW_OP_plus:
      return push(a + b);
    case DW_OP_minus:
      return push(a - b);
    case DW_OP_mul:
      return push(a * b);
    case DW_OP_div:
      if (sb == 0 || (sb == -1 && sa == INT64_MIN)) return stop(End::no_rule);
      return push(static_cast<std::uint64_t>(sa / sb));
    case DW_OP_mod:
      return b == 0 ? stop(End::no_rule) : push(a % b);
    case DW_OP_shl:
      return push(b > 63 ? 0 : a << b);
    case DW_OP_shr:
      return push(b > 63 ? 0 : a >> b);
    case DW_OP_shra:
      return push(static_cast<std::uint64_t>(sa >> (b > 63 ? 63 : b)));
    case DW_OP_eq:
      return push(a == b);
    case DW_OP_ne:
      return push(a != b);
    case DW_OP_lt:
      return push(sa < sb);
    case DW_OP_le:
      return push(sa <= sb);
    case DW_OP_gt:
      return push(sa > sb);
    case DW_OP_ge:
      return push(sa >= sb);
    default:
      return stop(End::no_rule);
  }
}

}  // namespace

tl::expected<std::uint64_t, End> evaluate(std::span<const std::byte> operations,
                                          const Position& position, const Stack& stack,
                                          const std::uint64_t* first) {
  Evaluation evaluation(operations, position, stack);
  if (first != nullptr) evaluation.push(*first);
  return evaluation.run();
}

namespace {

using Kind = RegisterRule::Kind;
using Word = tl::expected<std::uint64_t, End>;

Word known(std::optional<std::uint64_t> value) {
  if (!value) return tl::unexpected<End>(End::no_rule);
  return *value;
}

Word word_at(Address address, const Stack& stack) {
  std::uint64_t word = 0;
  if (!stack.read(address, word)) return tl::unexpected<End>(End::truncated);
  return word;
}

Word cfa_of(const Row& row, const Position& position, const Stack& stack) {
  if (row.cfa.kind == Kind::expression)
    return evaluate(row.expression(row.cfa), position, stack, nullptr);
  if (row.cfa.kind != Kind::in_register) return tl::unexpected<End>(End::no_rule);
  const auto base = position.get(static_cast<std::uint64_t>(row.cfa.value));
  return known(base).map(
      [&](std::uint64_t value) { return value + static_cast<std::uint64_t>(row.cfa_offset); });
}

class Restoration {
 public:
  Restoration(const Row& row, const Position& position, const Stack& stack, Address cfa)
      : row_(row), position_(position), stack_(stack), cfa_(cfa) {}

  [[nodiscard]] Word value(std::size_t number) const {
    const RegisterRule& rule = row_.registers[number];
    const std::uint64_t plus = cfa_ + static_cast<std::uint64_t>(rule.value);
    switch (rule.kind) {
      case Kind::unspecified:
        return by_abi(number);
      case Kind::undefined:
        return tl::unexpected<End>(End::no_rule);
      case Kind::same:
        return known(position_.get(number));
      case Kind::at_cfa:
        return is_kept(number) && !row_.changes_stack && is_popped(position_, plus)
                   ? known(position_.get(number))
                   : word_at(plus, stack_);
      case Kind::cfa_plus:
        return plus;
      case Kind::in_register:
        return known(position_.get(static_cast<std::uint64_t>(rule.value)));
      case Kind::expression:
        return evaluate(row_.expression(rule), position_, stack_, &cfa_);
      case Kind::at_expression:
        break;
    }
    return evaluate(row_.expression(rule), position_, stack_, &cfa_)
        .and_then([this](Address address) { return word_at(address, stack_); });
  }

 private:
  [[nodiscard]] bool is_kept(std::size_t number) const {
    return (roles_of(position_.registers.machine).kept >> number & 1) != 0;
  }
  [[nodiscard]] Word by_abi(std::size_t number) const {
    const Roles roles = roles_of(position_.registers.machine);
    if (number == roles.stack) return cfa_;
    // The link register, which no call has overwritten yet.
    const bool is_link = number == roles.result && roles.result != roles.pc;
    if (is_link || is_kept(number)) return known(position_.get(number));
    return tl::unexpected<End>(End::no_rule);
  }

  const Row& row_;
  const Position& position_;
  const Stack& stack_;
  Address cfa_;
};

}  // namespace

tl::expected<Position, End> restore(const Row& row, const Position& position, const Stack& stack) {
  const Machine machine = position.registers.machine;
  const Roles roles = roles_of(machine);
  if (row.registers[roles.result].kind == Kind::undefined)
    return tl::unexpected<End>(End::outermost);
  const Address cfa = TRY(cfa_of(row, position, stack));
  const Restoration caller(row, position, stack, cfa);

  // A trampoline gives the pc itself; there the link register is one like others.
  const bool gives_pc = row.registers[roles.pc].kind != Kind::unspecified;
  const Address pc = TRY(caller.value(gives_pc ? roles.pc : roles.result));
  const Address sp = TRY(caller.value(roles.stack));

  Position next;
  next.registers.machine = machine;
  for (std::size_t number = 0; number < register_count; ++number) {
    const Word value = caller.value(number);
    next.set(number, value ? std::optional(*value) : std::nullopt);
  }
  next.set(roles.stack, sp);
  // The caller has made a call since it got its own return address in the link register.
  if (!gives_pc) next.set(roles.result, std::nullopt);
  next.set(roles.pc, code_address(machine, pc));
  return next;
}

}  // namespace vitrine::unwind
