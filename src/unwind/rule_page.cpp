#include "unwind/rule_page.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "unwind/restore.hpp"

namespace vitrine::unwind {
namespace {

/// What is between two functions is less: to look at the code there for rules would take longer than
/// all else of a page. (A function that is as short, and has no CFI, is left to user space.)
constexpr Address alignment_of_functions = 16;

constexpr Rule of_form(Rule::Form form) {
  Rule rule;
  rule.form = form;
  return rule;
}

/// The CFA as an offset from the stack pointer, of an expression that needs nothing but this and the
/// pc: found with two stack pointers, and with two places that the file may be mapped at.
std::optional<std::int64_t> cfa_offset_at(const Row& row, Address address, Machine machine) {
  struct Try {
    Address sp, bias;
  };
  constexpr std::array<Try, 2> tries{{{0x7fff'1230'0000, 0}, {0x7ffe'0001'0040, 0x5555'0000'0000}}};
  const Roles roles = roles_of(machine);
  std::optional<std::int64_t> offset;
  for (const Try& given : tries) {
    Position position{{machine, {}}, 0};
    position.set(roles.stack, given.sp);
    position.set(roles.pc, address + given.bias);
    const auto cfa = evaluate(row.expression(row.cfa), position, Stack{}, nullptr);
    if (!cfa) return std::nullopt;
    const auto found = static_cast<std::int64_t>(*cfa - given.sp);
    if (offset && *offset != found) return std::nullopt;
    offset = found;
  }
  return offset;
}

/// Whether a trampoline's row restores what the kernel needs from where the kernel saves it.
bool is_kernel_signal(const Row& row, Machine machine) {
  constexpr Address sp = 0x1000;
  std::array<std::uint64_t, 128> words{};
  for (std::size_t n = 0; n < words.size(); ++n) words[n] = 0x10'0000 + n;
  const Stack stack{sp, std::as_bytes(std::span(words))};
  const Roles roles = roles_of(machine);
  Position position{{machine, {}}, 0};
  position.set(roles.stack, sp);
  const auto found = restore(row, position, stack);
  const auto wanted = restore(signal_frame_row(machine), position, stack);
  if (!found || !wanted) return false;
  return std::ranges::all_of(
      std::array{roles.stack, roles.frame, roles.pc},
      [&](std::uint8_t number) { return found->get(number) == wanted->get(number); });
}

class PageMaker {
 public:
  PageMaker(FrameTable& table, Address start) : table_(table), start_(start) {}

  RulePage make() {
    for (Address at = start_; at - start_ < rule_page_bytes;) at = take_from(at);
    return std::move(page_);
  }

 private:
  /// Returns the first address whose rule is not taken yet.
  Address take_from(Address at) {
    const RuleSpan* span = block_.span_of(at);
    if (span == nullptr) {
      block_ = table_.rules_around(at);
      span = block_.span_of(at);
    }
    const Rule rule = span != nullptr ? span->rule : table_.rule(at);
    const Address end = span != nullptr ? block_.start + span->start + span->size : at + 1;
    if (rule.form == Rule::Form::none && end - at < alignment_of_functions && span != nullptr) {
      add(at, of_form(Rule::Form::unknown));
      return end;
    }
    if (rule.form == Rule::Form::row || (rule.form == Rule::Form::none && follows_signal(at))) {
      add(at, rule.form == Rule::Form::row ? by_row(at) : of_form(Rule::Form::unknown));
      return at + 1;
    }
    add(at, rule.form == Rule::Form::none ? without_cfi(at) : rule);
    return end;
  }

  Rule by_row(Address at) {
    const Row* row = table_.row(at);
    return row != nullptr ? kernel_rule(*row, at, table_.machine()) : of_form(Rule::Form::unknown);
  }

  /// Within rt_sigreturn the pc is where the trampoline's rules end: user space looks there.
  bool follows_signal(Address at) {
    const Row* row = at != 0 ? table_.row(at - 1) : nullptr;
    return row != nullptr && row->is_signal;
  }

  Rule without_cfi(Address at) {
    const bool by_frames = table_.rule_by_code(at, false).form == Rule::Form::none;
    return of_form(by_frames ? Rule::Form::none : Rule::Form::unknown);
  }

  void add(Address at, const Rule& rule) {
    auto known = std::ranges::find(page_.rules, rule);
    if (known == page_.rules.end()) known = page_.rules.insert(known, rule);
    const auto number = static_cast<std::uint16_t>(known - page_.rules.begin());
    if (!page_.rows.empty() && page_.rows.back().rule == number) return;
    page_.rows.push_back({static_cast<std::uint16_t>(at - start_), number});
  }

  FrameTable& table_;
  Address start_;
  RuleBlock block_;
  RulePage page_;
};

bool is_for_kernel(const Rule& rule) {
  return rule.form != Rule::Form::row && is_sound(rule);
}

}  // namespace

Rule kernel_rule(const Row& row, Address address, Machine machine) {
  if (row.is_signal)
    return of_form(is_kernel_signal(row, machine) ? Rule::Form::signal : Rule::Form::unknown);
  Rule rule = compact(row, machine);
  if (rule.form == Rule::Form::row && row.cfa.kind == RegisterRule::Kind::expression) {
    if (const auto offset = cfa_offset_at(row, address, machine)) {
      Row by_offset = row;
      by_offset.cfa = {RegisterRule::Kind::in_register, 0, roles_of(machine).stack};
      by_offset.cfa_offset = *offset;
      rule = compact(by_offset, machine);
    }
  }
  return rule.form == Rule::Form::row ? of_form(Rule::Form::unknown) : rule;
}

const Rule& RulePage::at(std::uint32_t offset) const {
  const auto after = std::upper_bound(
      rows.begin(), rows.end(), offset,
      [](std::uint32_t wanted, const PageRow& row) { return wanted < row.offset; });
  return rules[std::prev(after)->rule];
}

bool RulePage::is_sound() const {
  if (rows.empty() || rows.front().offset != 0 || rules.size() > rule_page_bytes) return false;
  for (std::size_t n = 0; n < rows.size(); ++n)
    if (rows[n].offset >= rule_page_bytes || rows[n].rule >= rules.size() ||
        (n != 0 && rows[n].offset <= rows[n - 1].offset))
      return false;
  return std::ranges::all_of(rules, is_for_kernel);
}

RulePage make_rule_page(FrameTable& table, Address address) {
  return PageMaker(table, address & ~Address{rule_page_bytes - 1}).make();
}

}  // namespace vitrine::unwind
