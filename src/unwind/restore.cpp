#include "unwind/restore.hpp"

#include "unwind/expression.hpp"

namespace vitrine::unwind {
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
        return word_at(plus, stack_);
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
  [[nodiscard]] Word by_abi(std::size_t number) const {
    const Roles roles = roles_of(position_.registers.machine);
    if (number == roles.stack) return cfa_;
    // The link register, which no call has overwritten yet.
    const bool is_link = number == roles.result && roles.result != roles.pc;
    if (is_link || (roles.kept >> number & 1) != 0) return known(position_.get(number));
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
