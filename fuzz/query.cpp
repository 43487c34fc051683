// What users write in --where and --show, and what targets then hold against it.
#include "base/text.hpp"
#include "input.hpp"
#include "query/expression.hpp"
#include "query/show.hpp"

using namespace vitrine;

namespace {

vitrine_operand operand(std::uint8_t size, std::uint8_t flags) {
  vitrine_operand out{};
  out.kind = VITRINE_REGISTER;
  out.size = size;
  out.flags = flags;
  return out;
}

probe::ArgumentType type(std::uint32_t argument, const char* name, probe::ValueKind kind) {
  probe::ArgumentType out;
  out.argument = argument;
  out.name = name;
  out.kind = kind;
  return out;
}

/// Every label has the same value: what the input says after its first NUL.
class OneLabel : public query::Labels {
 public:
  explicit OneLabel(std::string_view value) : value_(value) {}
  std::optional<std::string_view> value(std::string_view) const override { return value_; }

 private:
  std::string_view value_;
};

probe::Value value_of(const query::Capture& capture, std::string_view text) {
  if (capture.form == query::Form::text) return probe::StringValue{std::string(text), false};
  if (capture.argument == 1) return probe::EnumeratorValue{1, "RED"};
  if (capture.argument == 2) return static_cast<double>(text.size()) / 3;
  return static_cast<std::int64_t>(text.size());
}

/// Never pops what it has not pushed, and leaves one truth.
void require_sound(const vitrine_predicate& predicate) {
  fuzz::require(predicate.count <= VITRINE_TESTS);
  std::size_t depth = 0;
  for (std::uint32_t i = 0; i < predicate.count; ++i) {
    const auto subject = predicate.tests[i].subject;
    const std::size_t pops = subject == VITRINE_NOT                            ? 1
                             : subject == VITRINE_AND || subject == VITRINE_OR ? 2
                                                                               : 0;
    fuzz::require(depth >= pops);
    depth = depth - pops + 1;
  }
  fuzz::require(depth == (predicate.count == 0 ? 0 : 1));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t nul = std::min(input.find('\0'), input.size());
  const std::string_view text = input.substr(0, nul);
  const std::string_view held = input.substr(std::min(nul + 1, input.size()));

  const std::vector<vitrine_operand> operands{operand(4, VITRINE_SIGNED), operand(4, 0),
                                              operand(8, VITRINE_FLOAT), operand(8, 0)};
  std::vector<probe::ArgumentType> types{type(0, "id", probe::ValueKind::integer),
                                         type(1, "colour", probe::ValueKind::enumeration),
                                         type(2, "price", probe::ValueKind::floating)};
  types[1].enumerators = {{1, "RED"}, {-2, "BLUE"}};
  const query::Arguments site{operands, types};
  const OneLabel labels(held);
  query::Fire fire;
  fire.labels = &labels;
  fire.comm = "server";

  std::vector<query::Capture> captures;
  if (const auto items = query::parse_items(text)) (void)query::bind(*items, site, captures);
  const auto expression = query::Expression::parse(text);
  if (!expression) {
    fuzz::require(expression.error().code == ErrorCode::usage);
    fuzz::require(!expression.error().message.empty());
    return 0;
  }
  const query::Condition condition = query::bind(*expression, site, captures);
  std::vector<probe::Value> values;
  for (const query::Capture& capture : captures) values.push_back(value_of(capture, held));
  fire.values = values;
  (void)condition.holds(fire);
  const auto selected = condition.selected();
  const auto compiled = query::compile(condition, site, captures, selected, {});
  require_sound(compiled.predicate);
  (void)glob_matches(text, held);
  return 0;
}
