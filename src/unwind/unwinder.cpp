#include "unwind/unwinder.hpp"

#include "base/limits.hpp"
#include "unwind/restore.hpp"

namespace vitrine::unwind {
namespace {

/// One stack. The usual way restores what the rules are made of: stack pointer, frame pointer and
/// pc. Few rules (of the dynamic linker, of assembly) go by another register; for a stack with one
/// of these all is done again, with all registers of each frame.
class Walk {
 public:
  Walk(const CodeMap& code, RuleCache& rules, const Registers& registers, const Stack& stack,
       std::vector<Frame>& frames)
      : code_(code),
        rules_(rules),
        stack_(stack),
        frames_(frames),
        roles_(roles_of(registers.machine)),
        position_{registers},
        low_(registers.sp()) {}

  End run(bool with_all_registers) {
    all_registers_ = with_all_registers;
    frames_.clear();
    std::optional<End> end;
    RuleCache::Entry made;
    while (!end) {
      Address lookup = pc() - (interrupted_ ? 0 : 1);
      const RuleCache::Entry* entry = rules_.find(lookup);
      if (entry == nullptr) entry = &(made = look_up(lookup));
      if (interrupted_ && entry->rule.form == Rule::Form::none &&
          is_after_trampoline(*entry, lookup))
        entry = &(made = look_up(--lookup));
      if (entry->region == no_region && !interrupted_) return End::bad;
      if (frames_.size() == limits::frames) return End::limit;
      frames_.push_back({pc(), entry->region, !interrupted_});
      end = leave(*entry, lookup);
      if (!end && pc() == 0) end = End::outermost;
    }
    return *end;
  }

  /// The walk ended for want of a register that it had not restored.
  [[nodiscard]] bool lacked_register() const { return lacked_register_; }

 private:
  RuleCache::Entry look_up(Address lookup) {
    RuleCache::Entry entry{lookup, {}, code_.find(lookup)};
    if (entry.region == no_region) return entry;
    const Region& region = code_[entry.region];
    if (region.rules != nullptr && region.rules->machine() == position_.registers.machine)
      entry.rule = region.rules->rule(lookup - region.bias);
    rules_.insert(entry);
    return entry;
  }

  /// Within rt_sigreturn: the system call is the trampoline's last instruction, so its rules end
  /// where the pc is.
  [[nodiscard]] bool is_after_trampoline(const RuleCache::Entry& entry, Address lookup) const {
    if (entry.region == no_region || code_.find(lookup - 1) != entry.region) return false;
    const Region& region = code_[entry.region];
    if (region.rules == nullptr || region.rules->machine() != position_.registers.machine)
      return false;
    const Row* row = region.rules->row(lookup - 1 - region.bias);
    return row != nullptr && row->is_signal;
  }

  /// To the caller; an end if there is none.
  std::optional<End> leave(const RuleCache::Entry& entry, Address lookup) {
    switch (entry.rule.form) {
      case Rule::Form::offsets:
      case Rule::Form::switched:
        if (!all_registers_) return by_offsets(entry.rule);
        [[fallthrough]];
      case Rule::Form::row: {
        const Region& region = code_[entry.region];
        return by_row(region.rules->row(lookup - region.bias));
      }
      case Rule::Form::outermost:
        return End::outermost;
      case Rule::Form::unknown:
      case Rule::Form::signal:
      case Rule::Form::none:
        break;
    }
    return by_code(entry.region);
  }

  /// Where no CFI is: by the instructions, or as their code is known to be.
  std::optional<End> by_code(std::uint32_t region) {
    if (region == no_region || code_[region].rules == nullptr ||
        code_[region].rules->machine() != position_.registers.machine)
      return by_convention(region);
    // No code is at such addresses: these are the keys of pcs, the others of lookups.
    const Address key = pc() | (interrupted_ ? Address{1} << 63 : Address{1} << 62);
    const RuleCache::Entry* known = rules_.find(key);
    RuleCache::Entry entry{key, {}, region};
    if (known != nullptr)
      entry = *known;
    else
      entry.rule = code_[region].rules->rule_by_code(pc() - code_[region].bias, !interrupted_);
    if (known == nullptr) rules_.insert(entry);
    if (entry.rule.form == Rule::Form::outermost) return End::outermost;
    if (entry.rule.form == Rule::Form::unknown) return End::no_rule;
    if (entry.rule.form != Rule::Form::offsets) return by_convention(region);
    if (const auto end = by_offsets(entry.rule)) return end;
    return can_be_returned_to(pc()) ? std::nullopt : std::optional(End::no_rule);
  }

  [[nodiscard]] bool can_be_returned_to(Address address) const {
    const std::uint32_t region = code_.find(address - 1);
    if (region == no_region) return false;
    const Region& its = code_[region];
    return its.rules == nullptr || its.rules->follows_call(address - its.bias);
  }

  std::optional<End> by_offsets(const Rule& rule) {
    if (!position_.knows(rule.cfa_register)) return lack_register();
    const Address cfa =
        words()[rule.cfa_register] + static_cast<std::uint64_t>(std::int64_t{rule.cfa_offset});
    const bool is_switched = rule.form == Rule::Form::switched;
    if (is_switched)
      was_switched_ = true;
    else if (goes_back(cfa))
      return End::bad;
    std::uint64_t target = 0;
    if (rule.return_address == Rule::Source::at_cfa) {
      const Address at = cfa + static_cast<std::uint64_t>(std::int64_t{rule.return_address_offset});
      if (!stack_.read(at, target)) return unreadable(at);
    } else if (roles_.result != roles_.pc && position_.knows(roles_.result)) {
      target = words()[roles_.result];
    } else {
      return End::no_rule;
    }
    const Address frame_at =
        cfa + static_cast<std::uint64_t>(std::int64_t{rule.frame_pointer_offset});
    bool has_frame = rule.frame_pointer != Rule::Source::lost && position_.knows(roles_.frame);
    if (rule.frame_pointer == Rule::Source::at_cfa &&
        (is_switched || !is_popped(position_, frame_at)))
      has_frame = stack_.read(frame_at, words()[roles_.frame]);
    call_from(target, cfa, has_frame);
    words()[roles_.stack] = cfa;
    position_.known |= bit(roles_.stack);
    return std::nullopt;
  }

  std::optional<End> by_row(const Row* row) {
    if (row == nullptr) return End::no_rule;
    was_switched_ = was_switched_ || row->changes_stack;
    auto next = restore(*row, position_, stack_);
    if (!next && next.error() == End::no_rule) return lack_register();
    if (!next && next.error() == End::truncated) return unreadable(stack_.missed);
    if (!next) return next.error();
    // A handler may have had a stack of its own.
    if (!row->is_signal && !row->changes_stack && goes_back(next->registers.sp())) return End::bad;
    const Address distance = next->registers.sp() - position_.registers.sp();
    position_ = *next;
    low_ = position_.registers.sp();
    interrupted_ = row->is_signal;
    if (row->is_signal) {
      // Between the registers that the kernel saved and what it interrupted: the other registers.
      constexpr Address saved_bytes = 32 * 1024;
      if (distance == 0 || distance > saved_bytes) on_other_stack_ = true;
      // The kernel made the handler return to the trampoline's first instruction: no call is before.
      frames_.back().is_return_address = false;
    }
    return std::nullopt;
  }

  /// Where no rule is: code that a JIT made, a call to an invalid address, the functions of a C
  /// library without CFI.
  std::optional<End> by_convention(std::uint32_t region) {
    std::uint64_t target = 0, frame = 0;
    if (region == no_region && roles_.result != roles_.pc) {
      if (!position_.knows(roles_.result)) return End::no_rule;
      return call_from(words()[roles_.result], low_, position_.knows(roles_.frame), true);
    }
    const Address at = words()[roles_.frame];
    const bool has_frame =
        region != no_region && position_.knows(roles_.frame) && at % 8 == 0 && at >= low_;
    const bool readable = has_frame && stack_.read(at, frame) && stack_.read(at + 8, target);
    if (readable && is_code(target)) {
      words()[roles_.frame] = frame;
      call_from(target, at + 16, true);
      // On aarch64 the pair may be anywhere in its frame.
      if (roles_.result == roles_.pc) {
        words()[roles_.stack] = low_;
        position_.known |= bit(roles_.stack);
      }
      return std::nullopt;
    }
    const Address sp = position_.registers.sp();
    if (interrupted_ && roles_.result == roles_.pc && stack_.read(sp, target) && is_code(target)) {
      call_from(target, sp + 8, position_.knows(roles_.frame));
      words()[roles_.stack] = low_;
      position_.known |= bit(roles_.stack);
      return std::nullopt;
    }
    // The frame pointer of a thread's first function is 0 by the ABI.
    if (position_.knows(roles_.frame) && (at == 0 || (readable && target == 0)))
      return End::outermost;
    if (has_frame && !readable) return unreadable(at) == End::bad ? End::no_rule : unreadable(at);
    return End::no_rule;
  }

  /// `keeps_stack`: the stack pointer, too, is as it was.
  std::optional<End> call_from(std::uint64_t target, Address low, bool has_frame,
                               bool keeps_stack = false) {
    words()[roles_.pc] = code_address(position_.registers.machine, target);
    low_ = low;
    interrupted_ = false;
    position_.known = bit(roles_.pc) | (has_frame ? bit(roles_.frame) : 0) |
                      (keeps_stack ? bit(roles_.stack) : 0);
    return std::nullopt;
  }

  /// Stacks grow down: a caller's frame is above. Only a function that was interrupted before it
  /// took any stack (aarch64) has none.
  [[nodiscard]] bool goes_back(Address cfa) const {
    return cfa < low_ || (cfa == low_ && !interrupted_);
  }
  [[nodiscard]] End unreadable(Address address) const {
    if (on_other_stack_) return End::other_stack;
    if (address - stack_.start_of(address) <= limits::stack_bytes) return End::truncated;
    return was_switched_ && stack_.left_bytes.empty() ? End::other_stack : End::bad;
  }
  End lack_register() {
    lacked_register_ = true;
    return End::no_rule;
  }
  [[nodiscard]] bool is_code(std::uint64_t word) const {
    return code_.find(code_address(position_.registers.machine, word) - 1) != no_region;
  }
  [[nodiscard]] Address pc() const { return position_.registers.words[roles_.pc]; }
  std::array<std::uint64_t, register_count>& words() { return position_.registers.words; }
  static constexpr std::uint64_t bit(std::size_t number) { return std::uint64_t{1} << number; }

  const CodeMap& code_;
  RuleCache& rules_;
  const Stack& stack_;
  std::vector<Frame>& frames_;
  Roles roles_;
  Position position_;
  Address low_;                  // no caller's frame ends below
  bool interrupted_ = true;      // the pc is where the function was, not where a call returns to
  bool on_other_stack_ = false;  // than the one that was copied
  bool was_switched_ = false;    // a function's frame was not on the stack that it called with
  bool all_registers_ = false;
  bool lacked_register_ = false;
};

}  // namespace

void Unwinder::replace(CodeMap code) {
  code_ = std::move(code);
  rules_.clear();
}

End Unwinder::unwind(const Registers& registers, const Stack& stack, std::vector<Frame>& frames) {
  Walk quick(code_, rules_, registers, stack, frames);
  const End end = quick.run(false);
  if (!quick.lacked_register()) return end;
  return Walk(code_, rules_, registers, stack, frames).run(true);
}

}  // namespace vitrine::unwind
