// Conditions at a site, for the kernel side: each comparison becomes one test of predicate.h, where
// one has the same meaning.

#include "query/compile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/text.hpp"
#include "query/expression.hpp"

namespace vitrine::query {
namespace {

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    word |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return word;
}

}  // namespace

std::uint64_t keyed_hash(const vitrine_hash_key& key, std::string_view bytes) {
  vitrine_hash_state state{};
  vitrine_hash_begin(&state, &key);
  const std::size_t length = bytes.size();
  for (; bytes.size() >= 8; bytes.remove_prefix(8))
    vitrine_hash_word(&state, little_endian(bytes.substr(0, 8)));
  return vitrine_hash_end(&state, little_endian(bytes), length);
}

std::uint64_t string_hash(const vitrine_hash_key& key, std::string_view bytes) {
  const std::uint64_t hash = keyed_hash(key, bytes.substr(0, VITRINE_NAME_BYTES));
  return hash == 0 ? 1 : hash;
}

namespace {

/// A test, or why there is none.
using Test = tl::expected<vitrine_test, std::string>;

/// Longer text is not compared by its hash: only VITRINE_NAME_BYTES of it are hashed.
constexpr std::size_t longest_text = VITRINE_NAME_BYTES - 1;

constexpr std::int64_t int64_min = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t int64_max = std::numeric_limits<std::int64_t>::max();

vitrine_test test(vitrine_subject subject, Comparison comparison, std::uint64_t operand,
                  bool is_signed = false, std::uint32_t index = 0) {
  constexpr vitrine_comparison of[] = {VITRINE_EQ, VITRINE_NE, VITRINE_LT,
                                       VITRINE_LE, VITRINE_GT, VITRINE_GE};
  vitrine_test out{};
  out.subject = subject;
  out.comparison = of[static_cast<std::size_t>(comparison)];
  out.is_signed = is_signed ? 1 : 0;
  out.index = static_cast<std::uint8_t>(index);
  out.operand = operand;
  return out;
}

vitrine_test connective(vitrine_subject subject) {
  return test(subject, Comparison::eq, 0);
}

/// No pid is less than 0.
vitrine_test never() {
  return test(VITRINE_ON_PID, Comparison::lt, 0);
}
vitrine_test always() {
  return test(VITRINE_ON_PID, Comparison::ge, 0);
}

tl::unexpected<std::string> unable(std::string reason) {
  return tl::unexpected<std::string>(std::move(reason));
}

/// a < b as b > a.
Comparison mirrored(Comparison comparison) {
  switch (comparison) {
    case Comparison::lt:
      return Comparison::gt;
    case Comparison::le:
      return Comparison::ge;
    case Comparison::gt:
      return Comparison::lt;
    case Comparison::ge:
      return Comparison::le;
    default:
      return comparison;
  }
}

bool is_glob(Comparison comparison) {
  return comparison == Comparison::like || comparison == Comparison::unlike;
}

/// Numbers that the kernel side has under a subject: 64 bits, signed or not.
struct Numbers {
  vitrine_subject subject = VITRINE_ON_PID;
  std::uint32_t index = 0;
  bool is_signed = false;

  /// True whenever there is a number.
  vitrine_test any() const {
    const auto least = is_signed ? static_cast<std::uint64_t>(int64_min) : 0;
    return test(subject, Comparison::ge, least, is_signed, index);
  }
  vitrine_test compared(Comparison comparison, std::uint64_t with) const {
    return test(subject, comparison, with, is_signed, index);
  }
  /// With a number that is below all of these, or above all.
  vitrine_test beyond(Comparison comparison, std::strong_ordering order) const {
    return holds(comparison, order) ? any() : never();
  }

  vitrine_test with_integer(Comparison comparison, const Number& literal) const {
    if (const auto* value = std::get_if<std::uint64_t>(&literal)) {
      if (is_signed && *value > static_cast<std::uint64_t>(int64_max))
        return beyond(comparison, std::strong_ordering::less);
      return compared(comparison, *value);
    }
    const std::int64_t value = std::get<std::int64_t>(literal);
    if (!is_signed && value < 0) return beyond(comparison, std::strong_ordering::greater);
    return compared(comparison, static_cast<std::uint64_t>(value));
  }

  /// An integer compared with 2.5 is one compared with 2 or 3.
  vitrine_test with_fraction(Comparison comparison, double literal) const {
    const double below = std::floor(literal);
    if (below < (is_signed ? -0x1p63 : 0.0))
      return beyond(comparison, std::strong_ordering::greater);
    if (below >= (is_signed ? 0x1p63 : 0x1p64))
      return beyond(comparison, std::strong_ordering::less);
    const Number whole = is_signed ? Number(static_cast<std::int64_t>(below))
                                   : Number(static_cast<std::uint64_t>(below));
    if (below == literal) return with_integer(comparison, whole);
    switch (comparison) {
      case Comparison::eq:
        return never();
      case Comparison::ne:
        return any();
      case Comparison::lt:
      case Comparison::le:
        return with_integer(Comparison::le, whole);
      default:
        return with_integer(Comparison::gt, whole);
    }
  }

  vitrine_test with(Comparison comparison, const Number& literal) const {
    if (const auto* fraction = std::get_if<double>(&literal))
      return with_fraction(comparison, *fraction);
    return with_integer(comparison, literal);
  }
};

class Compiler {
 public:
  Compiler(const Arguments& site, std::span<const Capture> captures,
           std::span<const Selected> selected, const vitrine_hash_key& key)
      : site_(site), captures_(captures), selected_(selected), key_(key) {}

  Test compile(const Condition::BoundStep& step) const {
    switch (step.kind) {
      case Step::Kind::both:
        return connective(VITRINE_AND);
      case Step::Kind::either:
        return connective(VITRINE_OR);
      case Step::Kind::negate:
        return connective(VITRINE_NOT);
      case Step::Kind::present:
        if (const auto* literal = std::get_if<Literal>(&step.left))
          return *literal == Literal(Number(std::int64_t{0})) ? never() : always();
        return present(std::get<Bound>(step.left));
      case Step::Kind::compare:
        break;
    }
    const auto* left = std::get_if<Bound>(&step.left);
    const auto* right = std::get_if<Bound>(&step.right);
    if (left != nullptr && right != nullptr) return unable("a comparison of two variables");
    if (left == nullptr && right == nullptr) return unable("a comparison of two constants");
    if (is_glob(step.comparison)) return unable("a glob");
    if (left != nullptr) return compare(*left, step.comparison, std::get<Literal>(step.right));
    return compare(*right, mirrored(step.comparison), std::get<Literal>(step.left));
  }

 private:
  Test present(const Bound& subject) const {
    // A readable value other than 0; a hash is never 0.
    if (const auto string = string_subject(subject))
      return compare_hash(*string, Comparison::ne, 0);
    return compare(subject, Comparison::ne, Number(std::int64_t{0}));
  }

  Test compare(const Bound& subject, Comparison comparison, const Literal& literal) const {
    if (subject.kind == Bound::Kind::nothing) return never();
    if (is_undecoded(subject)) return never();
    if (subject.kind == Bound::Kind::trace_id || subject.kind == Bound::Kind::span_id)
      return compare_id(subject, comparison, literal);
    if (const auto string = string_subject(subject)) {
      const auto* text = std::get_if<std::string>(&literal);
      if (text == nullptr) return unable("a text used as a number");
      if (comparison != Comparison::eq && comparison != Comparison::ne)
        return unable("an order comparison of text");
      if (text->size() > longest_text)
        return unable(fmt::format("a comparison of text of more than {} bytes", longest_text));
      return compare_hash(*string, comparison, string_hash(key_, *text));
    }
    const auto* number = std::get_if<Number>(&literal);
    return compare_number(subject, comparison, number);
  }

  /// What the kernel side has a hash of, or why it has none. Nothing: the subject is no text.
  struct StringSubject {
    vitrine_subject subject = VITRINE_ON_COMM;
    std::uint32_t index = 0;
    std::string missing;  ///< not empty: there is no hash
  };
  std::optional<StringSubject> string_subject(const Bound& subject) const {
    switch (subject.kind) {
      case Bound::Kind::comm:
        return StringSubject{};
      case Bound::Kind::probe:
        return StringSubject{.missing = "the probe's name"};
      case Bound::Kind::module:
        return StringSubject{.missing = "the file's name"};
      case Bound::Kind::function:
        return StringSubject{.missing = "the function's name"};
      case Bound::Kind::cgroup:
      case Bound::Kind::container:
        return StringSubject{.missing = "the control group's name"};
      case Bound::Kind::label:
        if (const auto index = selected_index({Selected::Kind::label, subject.key}))
          return StringSubject{VITRINE_ON_LABEL, *index, {}};
        return StringSubject{
            .missing = fmt::format("the label {}, which the kernel does not look up", subject.key)};
      case Bound::Kind::capture:
        if (captures_[subject.slot].form == Form::text)
          return StringSubject{VITRINE_ON_ARGUMENT_STRING, subject.slot, {}};
        if (captures_[subject.slot].form == Form::bytes)
          return StringSubject{.missing = "bytes of memory"};
        return std::nullopt;
      default:
        return std::nullopt;
    }
  }

  static Test compare_hash(const StringSubject& string, Comparison comparison, std::uint64_t hash) {
    if (!string.missing.empty()) return unable(string.missing);
    return test(string.subject, comparison, hash, false, string.index);
  }

  /// `number` is null: text is compared, which no number is.
  Test compare_number(const Bound& subject, Comparison comparison, const Number* number) const {
    Numbers numbers;
    switch (subject.kind) {
      case Bound::Kind::pid:
        break;
      case Bound::Kind::tid:
        numbers.subject = VITRINE_ON_TID;
        break;
      case Bound::Kind::capture:
        if (auto reason = argument_numbers(subject, numbers)) return unable(*reason);
        break;
      case Bound::Kind::site:
        return unable("the address of the site");
      case Bound::Kind::uid:
        return unable("the user ID");
      default:
        return unable("the CPU");
    }
    if (number == nullptr) return unable("a comparison of a number with text");
    if (subject.kind == Bound::Kind::capture && value_kind(subject) == probe::ValueKind::boolean)
      return compare_truth(numbers, comparison, *number);
    return numbers.with(comparison, *number);
  }

  /// A bool is 0 or 1, and any byte but 0 is true.
  static Test compare_truth(const Numbers& numbers, Comparison comparison, const Number& number) {
    const auto of = [&](std::int64_t truth) {
      const auto order = query::compare(truth, number);
      return holds(comparison, order < 0    ? std::strong_ordering::less
                               : order == 0 ? std::strong_ordering::equal
                                            : std::strong_ordering::greater);
    };
    if (of(0) && of(1)) return numbers.any();
    if (of(1)) return numbers.compared(Comparison::ne, 0);
    if (of(0)) return numbers.compared(Comparison::eq, 0);
    return never();
  }

  /// An id is shown as hexadecimal digits and kept as bytes.
  Test compare_id(const Bound& subject, Comparison comparison, const Literal& literal) const {
    const bool is_trace = subject.kind == Bound::Kind::trace_id;
    const auto* text = std::get_if<std::string>(&literal);
    const auto index =
        selected_index({is_trace ? Selected::Kind::trace_id : Selected::Kind::span_id, {}});
    if (!index) return unable("trace ids, which the kernel does not look up");
    if (comparison != Comparison::eq || text == nullptr)
      return unable("an order comparison of trace ids");
    // As ids are shown: in lower case.
    std::array<std::uint8_t, 16> trace{};
    std::array<std::uint8_t, 8> span{};
    if (!(is_trace ? parse_hex(*text, trace) : parse_hex(*text, span))) return never();
    const std::string bytes(is_trace ? std::string(trace.begin(), trace.end())
                                     : std::string(span.begin(), span.end()));
    return test(VITRINE_ON_LABEL, comparison, string_hash(key_, bytes), false, *index);
  }

  const vitrine_operand& operand(const Bound& subject) const {
    return site_.operands[captures_[subject.slot].argument];
  }

  bool is_undecoded(const Bound& subject) const {
    if (subject.kind != Bound::Kind::capture) return false;
    const Capture& capture = captures_[subject.slot];
    if (!capture.problem.empty()) return true;
    return !capture.is_calculated() && operand(subject).kind == VITRINE_NO_OPERAND;
  }

  probe::ValueKind value_kind(const Bound& subject) const {
    if (captures_[subject.slot].is_calculated()) return probe::ValueKind::integer;
    const auto* type = type_of(site_, captures_[subject.slot].argument);
    return type == nullptr ? probe::ValueKind::integer : type->kind;
  }

  /// Fills in `numbers`, or has the reason why the kernel side has no number of the argument.
  std::optional<std::string> argument_numbers(const Bound& subject, Numbers& numbers) const {
    if (const Capture& capture = captures_[subject.slot]; capture.is_calculated()) {
      numbers.subject = VITRINE_ON_ARGUMENT;
      numbers.index = subject.slot;
      numbers.is_signed = capture.calculation.is_signed;
      return std::nullopt;
    }
    const vitrine_operand& where = operand(subject);
    if ((where.flags & VITRINE_FLOAT) != 0) return "a floating-point number";
    if (where.size > 8) return "a value of more than 8 bytes";
    const probe::ValueKind kind = value_kind(subject);
    numbers.subject = VITRINE_ON_ARGUMENT;
    numbers.index = subject.slot;
    numbers.is_signed = (where.flags & VITRINE_SIGNED) != 0;
    if (kind == probe::ValueKind::pointer) numbers.is_signed = false;
    return std::nullopt;
  }

  std::optional<std::uint32_t> selected_index(const Selected& wanted) const {
    const auto found = std::find(selected_.begin(), selected_.end(), wanted);
    if (found == selected_.end()) return std::nullopt;
    return static_cast<std::uint32_t>(found - selected_.begin());
  }

  const Arguments& site_;
  std::span<const Capture> captures_;
  std::span<const Selected> selected_;
  const vitrine_hash_key& key_;
};

std::size_t operands_of(Step::Kind kind) {
  return kind == Step::Kind::both || kind == Step::Kind::either ? 2
         : kind == Step::Kind::negate                           ? 1
                                                                : 0;
}

/// Where the part of a postfix condition that ends at `last` begins.
std::size_t part_begin(const std::vector<Condition::BoundStep>& steps, std::size_t last) {
  std::size_t wanted = 1;
  for (std::size_t i = last + 1; i-- > 0;) {
    wanted += operands_of(steps[i].kind);
    if (--wanted == 0) return i;
  }
  return 0;
}

struct Part {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// The parts that `and` connects at the top of a condition, first to last.
std::vector<Part> conjuncts(const std::vector<Condition::BoundStep>& steps) {
  std::vector<Part> parts;
  std::size_t end = steps.size();
  while (end > 0) {
    if (steps[end - 1].kind != Step::Kind::both) {
      parts.push_back({0, end});
      break;
    }
    const std::size_t right = part_begin(steps, end - 2);
    parts.push_back({right, end - 1});  // which may be an `and` in parentheses: one part
    end = right;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

vitrine_operand constant_operand(std::uint64_t value) {
  vitrine_operand operand{};
  operand.kind = VITRINE_CONSTANT;
  operand.size = sizeof value;
  operand.base = VITRINE_NO_REGISTER;
  operand.index = VITRINE_NO_REGISTER;
  operand.displacement = value;
  return operand;
}

vitrine_operand result_operand(const Calculation& calculation) {
  vitrine_operand operand = constant_operand(0);
  operand.flags = calculation.is_signed ? VITRINE_SIGNED : 0;
  return operand;
}

std::vector<vitrine_calculation_step> compile_calculation(const Calculation& calculation,
                                                          const Arguments& site,
                                                          std::uint32_t slot) {
  std::vector<vitrine_calculation_step> out;
  for (const CalculationStep& step : calculation.steps) {
    vitrine_calculation_step& wire = out.emplace_back();
    wire.kind = static_cast<__u8>(step.kind);
    wire.is_signed = step.is_signed ? 1 : 0;
    if (step.kind == VITRINE_CALCULATE_PUSH)
      wire.operand =
          step.argument ? site.operands[*step.argument] : constant_operand(step.constant);
    if (step.kind != VITRINE_CALCULATE_LOAD) continue;
    wire.operand.kind = VITRINE_MEMORY;
    wire.operand.size = step.size;
    wire.operand.flags = step.is_signed ? VITRINE_SIGNED : 0;
  }
  vitrine_calculation_step& store = out.emplace_back();
  store.kind = VITRINE_CALCULATE_STORE;
  store.capture = static_cast<__u8>(slot);
  return out;
}

Compiled compile(const Condition& condition, const Arguments& site,
                 std::span<const Capture> captures, std::span<const Selected> selected,
                 const vitrine_hash_key& key) {
  const Compiler compiler(site, captures, selected, key);
  const auto& steps = condition.steps();
  Compiled compiled;
  // A condition is true only where all its conjuncts are: the kernel side tests those it can.
  for (const Part& part : conjuncts(steps)) {
    std::vector<vitrine_test> tests;
    bool whole = true;
    for (std::size_t i = part.begin; i < part.end; ++i) {
      const Test test = compiler.compile(steps[i]);
      if (test) {
        tests.push_back(*test);
      } else {
        compiled.left_over.push_back(fmt::format("`{}`: {}", steps[i].text, test.error()));
        whole = false;
      }
    }
    if (!whole) continue;
    vitrine_predicate& predicate = compiled.predicate;
    const bool is_first = predicate.count == 0;
    if (predicate.count + tests.size() + (is_first ? 0 : 1) > VITRINE_TESTS) {
      compiled.left_over.push_back(
          fmt::format("`{}`: more than {} tests", steps[part.begin].text, VITRINE_TESTS));
      continue;
    }
    for (const vitrine_test& test : tests) predicate.tests[predicate.count++] = test;
    if (!is_first) predicate.tests[predicate.count++] = connective(VITRINE_AND);
  }
  return compiled;
}

}  // namespace vitrine::query
