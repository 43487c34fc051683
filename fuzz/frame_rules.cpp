// What a worker that was asked how functions are left returns, which a hostile file may have taken
// over: {u8 what}{response}. What is sound is applied to a stack.
#include "base/limits.hpp"
#include "input.hpp"
#include "observe/profile/file_rules.hpp"
#include "unwind/unwinder.hpp"

using namespace vitrine;

namespace {

template <class T>
std::optional<T> take(std::span<const std::byte> bytes) {
  auto value = pack::unpack<T>(bytes);
  if (!value) return std::nullopt;
  fuzz::require(std::ranges::equal(pack::pack(*value), bytes));  // it has one spelling
  return std::move(*value);
}

/// Says the same of every address.
class OneRule final : public unwind::RuleSource {
 public:
  OneRule(const unwind::Rule& rule, unwind::Row row) : rule_(rule), row_(std::move(row)) {}
  [[nodiscard]] Machine machine() const override { return Machine::x86_64; }
  unwind::Rule rule(Address) override { return rule_; }
  const unwind::Row* row(Address) override { return &row_; }

 private:
  unwind::Rule rule_;
  unwind::Row row_;
};

void unwind_by(const unwind::Rule& rule, const unwind::Row& row) {
  std::vector<std::byte> stack(512);
  for (std::size_t at = 0; at < stack.size(); at += 8) {
    const Address word = fuzz::base + at;
    std::memcpy(&stack[at], &word, sizeof word);
  }
  unwind::Registers registers;
  registers.words.fill(0x7ff0'0000'0000);
  registers.words[16] = fuzz::base;
  unwind::Unwinder unwinder(unwind::CodeMap(
      {{fuzz::base, fuzz::base + 0x1000, fuzz::base, std::make_shared<OneRule>(rule, row)}}));
  std::vector<unwind::Frame> frames;
  unwinder.unwind(registers, {registers.sp(), stack}, frames);
  fuzz::require(!frames.empty() && frames.size() <= limits::frames);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = fuzz::bytes(data + 1, size - 1);
  switch (data[0] % 6) {
    case 0:
      take<observe::RuleRequest>(bytes);
      break;
    case 1:
      take<Result<observe::OpenedRules>>(bytes);
      break;
    case 2:
      if (const auto found = take<observe::FoundRules>(bytes)) {
        if (!unwind::is_sound(found->rule) || !found->around.is_sound()) break;
        unwind_by(found->rule, {});
        const unwind::RuleBlock& block = found->around;
        for (const unwind::RuleSpan& span : block.spans) {
          fuzz::require(block.find(block.start + span.start) == &span.rule);
          fuzz::require(block.find(block.start + span.start + span.size - 1) == &span.rule);
        }
      }
      break;
    case 3:
      take<observe::CallBefore>(bytes);
      break;
    case 4:
      if (const auto rule = take<unwind::Rule>(bytes); rule && unwind::is_sound(*rule))
        unwind_by(*rule, {});
      break;
    default:
      if (const auto row = take<std::optional<unwind::Row>>(bytes); row && *row)
        if (unwind::is_sound(**row))
          unwind_by({unwind::Rule::Form::row, 0, {}, {}, 0, 0, 0}, **row);
  }
  return 0;
}
