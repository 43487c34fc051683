#include "observe/trace/program.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "base/memory.hpp"
#include "base/text.hpp"
#include "probe/function_call.hpp"
#include "probe/function_pattern.hpp"
#include "query/compile.hpp"

namespace vitrine::observe {
namespace {

using query::Comparison;

constexpr std::size_t max_names = 12;
constexpr std::size_t letters_a_slip = 3;  // of a word, for each character that differs

bool compares_size(const query::Step& step) {
  if (step.kind != query::Step::Kind::compare) return false;
  const auto* literal = std::get_if<query::Literal>(&step.right);
  const auto c = step.comparison;
  return literal != nullptr && std::holds_alternative<query::Number>(*literal) &&
         (c == Comparison::lt || c == Comparison::le || c == Comparison::gt || c == Comparison::ge);
}

/// How far the word is from the nearest name; of no names, very far.
std::size_t distance(const std::string& word, const std::vector<std::string>& names) {
  std::size_t least = word.size() + 1;
  for (const std::string& name : names) least = std::min(least, spelling_distance(word, name));
  return least;
}

/// What to report of a word, if it is doubtful. `is_number`: so it is used.
std::string doubt(bool is_number, const std::string& word,
                  const std::vector<std::unique_ptr<TraceProgram>>& programs) {
  const TraceProgram* nearest = nullptr;
  std::vector<std::string> names;
  for (const auto& program : programs) {
    std::vector<std::string> its_names = program->argument_names();
    const bool nearer = nearest == nullptr || distance(word, its_names) < distance(word, names);
    if (!nearer) continue;
    nearest = program.get();
    names = std::move(its_names);
  }
  if (nearest == nullptr || distance(word, names) == 0) return {};
  const bool alike = distance(word, names) * letters_a_slip <= word.size();
  if (!alike && !is_number) return {};
  if (names.size() > max_names) {
    names.resize(max_names);
    names.emplace_back("…");
  }
  return fmt::format(
      "'{}' is not an argument of {} ({}); used as a label key", word, nearest->probe(),
      names.empty() ? "its arguments have no names" : fmt::format("{}", fmt::join(names, ", ")));
}

}  // namespace

std::vector<std::string> doubtful_words(
    const query::Expression& where, const std::vector<std::unique_ptr<TraceProgram>>& programs) {
  std::vector<std::string> doubts;
  for (const query::Step& step : where.steps()) {
    const auto* subject = std::get_if<query::Subject>(&step.left);
    if (subject == nullptr || subject->kind != query::Subject::Kind::word) continue;
    if (std::string text = doubt(compares_size(step), subject->name, programs); !text.empty())
      doubts.push_back(std::move(text));
  }
  return doubts;
}

namespace {

/// Whether it must be an argument: a bare word elsewhere may be a label.
bool is_of_arguments(const query::Subject& subject) {
  using Kind = query::Subject::Kind;
  if (subject.kind == Kind::argument || subject.kind == Kind::named_argument ||
      subject.kind == Kind::calculated)
    return true;
  return subject.kind == Kind::word &&
         (subject.form == query::Form::text || subject.form == query::Form::bytes);
}

std::string arguments_of(const TraceProgram& program) {
  std::vector<std::string> names = program.argument_names();
  if (names.size() > max_names) {
    names.resize(max_names);
    names.emplace_back("…");
  }
  if (!names.empty()) return fmt::format("{} has {}", program.probe(), fmt::join(names, ", "));
  const std::size_t count = program.argument_count();
  if (count == 0) return program.probe() + " has no arguments";
  return count == 1 ? program.probe() + " has arg0"
                    : fmt::format("{} has arg0 to arg{}", program.probe(), count - 1);
}

}  // namespace

Result<void> require_names(std::string_view option, std::span<const query::Item> items,
                           const std::vector<std::unique_ptr<TraceProgram>>& programs,
                           BareWord bare) {
  using Role = TraceProgram::Role;
  for (const query::Item& item : items) {
    const bool is_word = item.subject.kind == query::Subject::Kind::word;
    const bool is_strict = is_of_arguments(item.subject);
    if (!is_strict && !is_word) continue;
    for (const Role role : {Role::measure, Role::start, Role::end}) {
      if (role == Role::start && bare != BareWord::argument) continue;  // items are of the end
      const TraceProgram* one = nullptr;
      bool known = false;
      bool is_one_probe = true;
      std::vector<std::string> names;
      for (const auto& program : programs) {
        if (program->role() != role) continue;
        is_one_probe = is_one_probe && (one == nullptr || one->probe() == program->probe());
        one = program.get();
        known = known || program->has_arguments(item.subject);
        for (std::string& name : program->argument_names()) names.push_back(std::move(name));
      }
      if (one == nullptr || known) continue;
      const std::string& word = item.subject.name;
      const bool alike = bare == BareWord::unlike_argument && is_word && !names.empty() &&
                         distance(word, names) * letters_a_slip <= word.size();
      if (!is_strict && !alike && bare != BareWord::argument) continue;
      return fail(ErrorCode::failed,
                  fmt::format("{}: '{}' is not an argument of {}; {}", option, item.title,
                              is_one_probe ? one->probe() : "any traced probe", arguments_of(*one)),
                  is_word ? fmt::format("for the label of that name, write label.{}", word)
                          : "`vitrine probes` lists the arguments of each probe");
    }
  }
  return {};
}

std::vector<std::string> doubtful_words(
    const query::Item& value, const std::vector<std::unique_ptr<TraceProgram>>& programs) {
  if (value.subject.kind != query::Subject::Kind::word) return {};
  std::string text = doubt(true, value.subject.name, programs);
  if (text.empty()) return {};
  return {std::move(text)};
}

namespace {

using probe::Value;
using probe::ValueError;
using query::Form;

/// Of an argument's text in a complaint about it.
constexpr std::size_t max_text_bytes = 80;

bool has_length(const query::Capture& capture) {
  return capture.length != 0 || capture.length_argument.has_value();
}

/// What distinguishes the types of one site from those of another.
std::string identity_of(const std::vector<probe::ArgumentType>& types) {
  std::string text;
  for (const probe::ArgumentType& type : types)
    text += fmt::format("{} {} {} {} {}\n", type.name, type.type, static_cast<int>(type.kind),
                        type.argument, type.length_argument.value_or(~0U));
  return text;
}

/// Of a capture whose bytes did not come.
std::string reason(std::uint8_t state, std::uint64_t address) {
  switch (state) {
    case VITRINE_CAPTURE_UNAVAILABLE:
      return "it is in a register that the kernel does not provide";
    case VITRINE_CAPTURE_UNREADABLE:
      return fmt::format("memory at {} could not be read", hex(address));
    case VITRINE_CAPTURE_NO_ROOM:
      return "the event was full";
    case VITRINE_CAPTURE_DIVIDED_BY_0:
      return "a division by 0";
    default:
      return "it was not captured";
  }
}

void add_label(std::vector<query::Selected>& selected, query::Selected wanted) {
  if (selected.size() < VITRINE_SELECTED_LABELS && wanted.key.size() <= VITRINE_KEY_BYTES &&
      std::find(selected.begin(), selected.end(), wanted) == selected.end())
    selected.push_back(std::move(wanted));
}

/// All that conditions and groups speak of.
std::vector<query::Subject> subjects_of(const TraceQuery& query) {
  std::vector<query::Subject> subjects;
  if (query.where)
    for (const query::Step& step : query.where->steps())
      for (const query::Term* term : {&step.left, &step.right})
        if (const auto* subject = std::get_if<query::Subject>(term)) subjects.push_back(*subject);
  if (query.reduction)
    for (const query::Item& item : query.reduction->by) subjects.push_back(item.subject);
  return subjects;
}

}  // namespace

bool wants_labels(const TraceQuery& query) {
  using Kind = query::Subject::Kind;
  if (query.reduction && query.reduction->exemplars) return true;
  const auto subjects = subjects_of(query);
  return std::any_of(subjects.begin(), subjects.end(), [](const query::Subject& subject) {
    return subject.kind == Kind::label || subject.kind == Kind::word ||
           subject.kind == Kind::trace_id || subject.kind == Kind::span_id;
  });
}

namespace {

bool asks_for(const TraceQuery& query, std::initializer_list<query::Subject::Kind> kinds) {
  const auto is_one = [&](const query::Subject& subject) {
    return std::find(kinds.begin(), kinds.end(), subject.kind) != kinds.end();
  };
  const auto subjects = subjects_of(query);
  return std::any_of(subjects.begin(), subjects.end(), is_one) ||
         std::any_of(query.show.begin(), query.show.end(),
                     [&](const query::Item& item) { return is_one(item.subject); });
}

}  // namespace

bool wants_functions(const TraceQuery& query) {
  return asks_for(query, {query::Subject::Kind::function});
}

bool wants_origins(const TraceQuery& query) {
  using Kind = query::Subject::Kind;
  return asks_for(query, {Kind::uid, Kind::cgroup, Kind::container});
}

bool wants_stacks(const TraceQuery& query) {
  return asks_for(query, {query::Subject::Kind::stack});
}

std::vector<query::Selected> selected_labels(const TraceQuery& query) {
  using Kind = query::Subject::Kind;
  const std::vector<query::Subject> subjects = subjects_of(query);
  std::vector<query::Selected> selected;
  for (const query::Subject& subject : subjects) {
    if (subject.kind == Kind::label)
      add_label(selected, {query::Selected::Kind::label, subject.name});
    else if (subject.kind == Kind::trace_id)
      add_label(selected, {query::Selected::Kind::trace_id, {}});
    else if (subject.kind == Kind::span_id)
      add_label(selected, {query::Selected::Kind::span_id, {}});
  }
  // A bare word is a label only where the probe has no argument of that name.
  for (const query::Subject& subject : subjects)
    if (subject.kind == Kind::word)
      add_label(selected, {query::Selected::Kind::label, subject.name});
  return selected;
}

TraceProgram::TraceProgram(std::string probe, const probe::Site& site, ProbeSymbols& symbols,
                           const TraceQuery& query, Role role)
    : probe_(std::move(probe)),
      role_(role),
      texts_(site.arguments),
      types_(site.types),
      is_function_(probe::is_function_pattern(probe_)),
      string_bytes_(std::min<std::size_t>(query.string_bytes, VITRINE_CAPTURE_BYTES)) {
  if (query.reduction && query.reduction->of_calls && !query.reduction->match) {
    const probe::FunctionCall call(symbols.machine());
    texts_.push_back(call.stack_pointer());
    pushed_by_call_ = call.pushed_by_call();
    is_within_call_ = role_ == Role::start || site.is_exit;
    has_frame_ = true;
  }
  for (const std::string& text : texts_) {
    auto operand = symbols.compile(text, site);
    operands_.push_back(operand ? *operand : vitrine_operand{});
    errors_.push_back(operand ? std::string() : operand.error().message);
  }
  bind(query);
  identity_ = fmt::format("{}\n{}\n{}", probe_, static_cast<int>(role_), identity_of(types_));
  identity_.append(reinterpret_cast<const char*>(operands_.data()),
                   operands_.size() * sizeof(vitrine_operand));
  for (std::size_t i = 0; i < errors_.size(); ++i)
    if (!errors_[i].empty()) identity_ += texts_[i] + '\n';
}

void TraceProgram::bind(const TraceQuery& query) {
  const query::Arguments site = arguments();
  if (has_condition(query)) condition_ = query::bind(*query.where, site, captures_);
  tested_ = captures_.size();
  if (query.reduction) reduction_ = query::bind(*query.reduction, role_, site, captures_);
  if (has_frame_) reduction_->match = bind_frame();
  if (!adds_up(query)) bind_shown(query);
  if (query.slower && role_ == Role::start) fit_kept();
  for (const query::Capture& capture : captures_) {
    bool hidden = false;
    for (std::uint32_t i = 0; i < operands_.size(); ++i) {
      // Its length shows nothing of an argument but its length.
      const bool is_length = capture.length_argument == i && !capture.is_calculated();
      if (!query::reads(capture, i) || (is_length && capture.argument != i)) continue;
      const probe::ArgumentType* type = query::type_of(site, i);
      hidden = hidden || query.redaction.covers_argument(
                             i, type == nullptr ? std::string_view() : type->name);
    }
    hidden_.push_back(hidden);
  }
}

/// The items that were asked for, of a pair at its end; else all arguments.
void TraceProgram::bind_shown(const TraceQuery& query) {
  const query::Arguments site = arguments();
  const std::size_t own = texts_.size() - (has_frame_ ? 1 : 0);  // without the stack pointer
  if (!query.show.empty() && role_ != Role::start)
    for (query::BoundItem& item : query::bind(query.show, site, captures_))
      shown_.push_back({std::move(item.title), std::move(item.subject), item.format});
  else
    // One more than can be captured shows that some are cut; a note with 10,000 makes no event of 10,000.
    for (std::uint32_t i = 0; i < own && shown_.size() <= VITRINE_CAPTURES; ++i) {
      const probe::ArgumentType* type = query::type_of(site, i);
      // The length of a string is no argument to its reader.
      const bool is_length =
          type == nullptr && std::any_of(types_.begin(), types_.end(), [&](const auto& other) {
            return other.length_argument == i;
          });
      if (is_length) continue;
      const auto slot = query::slot_of(query::capture_of(site, i), captures_);
      shown_.push_back({type != nullptr ? type->name : std::string(),
                        {query::Bound::Kind::capture, slot, {}, operands_[i].size},
                        query::Format::plain});
    }
}

/// Shortens texts, so that all that a start captures can be kept.
void TraceProgram::fit_kept() {
  std::size_t left = VITRINE_KEPT_BYTES;
  std::size_t texts = 0;
  for (const query::Capture& capture : captures_) {
    std::size_t bytes = sizeof(vitrine_captured);
    if (capture.form == Form::text || capture.form == Form::bytes)
      ++texts;
    else if (!capture.is_calculated() && capture.argument < operands_.size() &&
             operands_[capture.argument].size > sizeof(std::uint64_t))
      bytes += (operands_[capture.argument].size + 7U) & ~7U;
    left -= std::min(left, bytes);
  }
  if (texts > 0) string_bytes_ = std::clamp<std::size_t>((left / texts) & ~7U, 8, string_bytes_);
}

/// A call by the stack pointer that it returns with, which no other call of the thread's process
/// has meanwhile. A function that jumps to another has the same as that: the upper bits, which no
/// stack pointer has, are the function's.
query::Bound TraceProgram::bind_frame() {
  const auto stack_pointer = static_cast<std::uint32_t>(operands_.size() - 1);
  constexpr unsigned pointer_bits = 48;
  const std::uint64_t function = std::hash<std::string>{}(probe_) << pointer_bits;
  const std::uint64_t pushed = is_within_call_ ? pushed_by_call_ : 0;
  query::Capture capture;
  auto& steps = capture.calculation.steps;
  steps.resize(3);
  steps[0].argument = stack_pointer;
  steps[1].constant = function + pushed;
  steps[2].kind = VITRINE_CALCULATE_ADD;
  return {query::Bound::Kind::capture, query::slot_of(capture, captures_), {}, 8};
}

/// Of a latency the condition is asked at its end; of a call, at its entry, where it has its
/// arguments, unless it speaks of what the function returns.
bool TraceProgram::has_condition(const TraceQuery& query) const {
  if (!query.where) return false;
  if (role_ == Role::measure) return true;
  const auto is_result = [](const query::Step& step) {
    const auto* subject = std::get_if<query::Subject>(&step.left);
    return subject != nullptr && subject->name == "return";
  };
  const auto& steps = query.where->steps();
  const bool at_start = query.reduction && query.reduction->of_calls &&
                        std::none_of(steps.begin(), steps.end(), is_result);
  return role_ == (at_start ? Role::start : Role::end);
}

std::vector<std::string> TraceProgram::argument_names() const {
  std::vector<std::string> names;
  for (const probe::ArgumentType& type : types_)
    if (!type.name.empty() && type.argument < operands_.size()) names.push_back(type.name);
  return names;
}

bool TraceProgram::has_arguments(const query::Subject& subject) const {
  if (subject.kind == query::Subject::Kind::calculated)
    return !query::missing_operand(subject, arguments());
  return query::argument_of(subject, arguments()).has_value();
}

std::string TraceProgram::value_problem() const {
  if (!reduction_ || !reduction_->value || reduction_->value->kind != query::Bound::Kind::capture)
    return {};
  return captures_[reduction_->value->slot].problem;
}

std::vector<std::string> TraceProgram::problems() const {
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < errors_.size(); ++i)
    if (!errors_[i].empty())
      problems.push_back(fmt::format("argument {} ({}{}): {}", i,
                                     texts_[i].substr(0, max_text_bytes),
                                     texts_[i].size() > max_text_bytes ? "…" : "", errors_[i]));
  return problems;
}

vitrine_site_program TraceProgram::wire(const query::Compiled& condition,
                                        const std::optional<KernelReduction>& reduction) const {
  vitrine_site_program program{};
  program.where = condition.predicate;
  program.role = VITRINE_EMIT;
  program.value = VITRINE_NO_CAPTURE;
  program.match = VITRINE_NO_CAPTURE;
  if (reduction) {
    program.role = reduction->role;
    program.probe = reduction->number;
    program.pair = reduction->pair;
    if (reduction_->value) program.value = static_cast<__u8>(reduction_->value->slot);
    if (reduction_->match) program.match = static_cast<__u8>(reduction_->match->slot);
    for (const std::uint8_t capture : reduction->group) program.group[program.groups++] = capture;
    program.group_labels = reduction->group_labels;
  }
  program.captures = static_cast<__u8>(std::min<std::size_t>(captures_.size(), VITRINE_CAPTURES));
  program.not_tested =
      static_cast<__u8>(program.captures - std::min<std::size_t>(tested_, program.captures));
  for (std::size_t i = 0; i < program.captures; ++i) {
    const query::Capture& wanted = captures_[i];
    vitrine_capture& capture = program.capture[i];
    if (!take_value(wanted, static_cast<std::uint32_t>(i), program)) continue;
    capture.form = VITRINE_CAPTURE_VALUE;
    if (wanted.form == Form::number || wanted.form == Form::natural) continue;
    capture.most = static_cast<__u32>(string_bytes_);
    capture.form = VITRINE_CAPTURE_STRING;
    if (!has_length(wanted)) continue;
    capture.form = wanted.until_nul ? VITRINE_CAPTURE_STRING_AT : VITRINE_CAPTURE_BYTES_AT;
    if (!wanted.length_argument)
      capture.length = query::constant_operand(wanted.length);
    else if (*wanted.length_argument < operands_.size())
      capture.length = operands_[*wanted.length_argument];
    if (capture.length.kind != VITRINE_NO_OPERAND) continue;
    capture.operand = {};
    capture.calculated = 0;
  }
  return program;
}

/// Where the number of capture `slot` comes from. False: from nowhere.
bool TraceProgram::take_value(const query::Capture& wanted, std::uint32_t slot,
                              vitrine_site_program& program) const {
  vitrine_capture& capture = program.capture[slot];
  if (!wanted.is_calculated()) {
    if (wanted.argument >= operands_.size()) return false;
    capture.operand = operands_[wanted.argument];
    return true;
  }
  const auto steps = query::compile_calculation(wanted.calculation, arguments(), slot);
  if (!wanted.problem.empty() || program.steps + steps.size() > VITRINE_CALCULATION_STEPS)
    return false;
  for (const vitrine_calculation_step& step : steps) program.step[program.steps++] = step;
  capture.operand = query::result_operand(wanted.calculation);
  capture.calculated = 1;
  return true;
}

query::Compiled TraceProgram::compile_condition(std::span<const query::Selected> selected,
                                                const vitrine_hash_key& key) const {
  return query::compile(condition_, arguments(), captures_, selected, key);
}

bool TraceProgram::is_integer(std::uint32_t slot) const {
  const query::Capture& capture = captures_[slot];
  if (capture.is_calculated()) return capture.form == Form::number && capture.problem.empty();
  if (capture.form != Form::number || capture.argument >= operands_.size()) return false;
  const vitrine_operand& operand = operands_[capture.argument];
  return operand.kind != VITRINE_NO_OPERAND && (operand.flags & VITRINE_FLOAT) == 0 &&
         operand.size <= sizeof(std::uint64_t);
}

bool TraceProgram::is_key(std::uint32_t slot) const {
  return captures_[slot].form == Form::text || is_integer(slot);
}

bool TraceProgram::is_signed(std::uint32_t slot) const {
  const query::Capture& capture = captures_[slot];
  if (capture.is_calculated()) return capture.calculation.is_signed;
  return (operands_[capture.argument].flags & VITRINE_SIGNED) != 0;
}

std::string TraceProgram::reading(std::uint32_t slot) const {
  const query::Capture& capture = captures_[slot];
  if (capture.form != Form::number) return {};
  if (is_plain(capture)) return is_unsigned_word(slot) ? "unsigned" : "integer";
  const probe::ArgumentType& type = *query::type_of(arguments(), capture.argument);
  return fmt::format("{}{} {} {}", is_signed(slot) ? "-" : "", operands_[capture.argument].size,
                     static_cast<int>(type.kind),
                     type.kind == probe::ValueKind::enumeration ? type.type : std::string());
}

/// An integer without enumerators.
bool TraceProgram::is_plain(const query::Capture& capture) const {
  if (capture.is_calculated()) return true;
  const probe::ArgumentType* type = query::type_of(arguments(), capture.argument);
  return type == nullptr || type->kind == probe::ValueKind::integer;
}

bool TraceProgram::is_unsigned_word(std::uint32_t slot) const {
  const query::Capture& capture = captures_[slot];
  return !is_signed(slot) &&
         (capture.is_calculated() || operands_[capture.argument].size >= sizeof(std::uint64_t));
}

Value TraceProgram::key(std::uint32_t slot, std::uint64_t bits) const {
  const query::Capture& capture = captures_[slot];
  if (capture.form != Form::number) {
    if (bits == VITRINE_NULL_TEXT) return probe::PointerValue{.address = 0, .is_absent = true};
    return ValueError{"it could not be read, or did not fit"};
  }
  if (is_plain(capture)) {
    if (is_unsigned_word(slot)) return bits;
    return static_cast<std::int64_t>(bits);
  }
  const vitrine_operand& operand = operands_[capture.argument];
  const auto bytes = std::as_bytes(std::span(&bits, 1));
  return probe::make_value(operand, bytes.first(operand.size),
                           query::type_of(arguments(), capture.argument));
}

Value TraceProgram::number(const query::Calculation& calculation, std::uint64_t bits) {
  if (calculation.is_signed) return static_cast<std::int64_t>(bits);
  return bits;
}

std::vector<Value> TraceProgram::values(std::span<const bpf::Captured> captured) const {
  std::vector<Value> values;
  values.reserve(captures_.size());
  for (std::size_t i = 0; i < captures_.size(); ++i)
    values.push_back(i < captured.size() ? value(captures_[i], captured[i])
                                         : ValueError{"too many arguments are requested"});
  return values;
}

Value TraceProgram::value(const query::Capture& capture, const bpf::Captured& captured) const {
  if (!captured.ok()) return unread(capture, captured);
  if (capture.form == Form::text)
    return probe::StringValue{
        {reinterpret_cast<const char*>(captured.bytes.data()), captured.bytes.size()},
        captured.head.cut != 0};
  if (capture.form == Form::bytes)
    return probe::BytesValue{{captured.bytes.begin(), captured.bytes.end()},
                             captured.head.cut != 0};
  if (capture.is_calculated()) return number(capture.calculation, captured.head.value);
  const vitrine_operand& operand = operands_[capture.argument];
  const probe::ArgumentType* type = query::type_of(arguments(), capture.argument);
  if (operand.size > sizeof captured.head.value)
    return probe::make_value(operand, captured.bytes, type);
  const auto bytes = std::as_bytes(std::span(&captured.head.value, 1));
  return probe::make_value(operand, bytes.first(operand.size), type);
}

Value TraceProgram::unread(const query::Capture& capture, const bpf::Captured& captured) const {
  if (!capture.problem.empty()) return ValueError{capture.problem};
  if (!capture.is_calculated() && capture.argument >= operands_.size())
    return ValueError{fmt::format("the probe has {} arguments here", operands_.size())};
  for (std::uint32_t i = 0; i < errors_.size(); ++i)
    if (!errors_[i].empty() && query::reads(capture, i) && capture.length_argument != i)
      return ValueError{errors_[i]};
  if (capture.is_calculated() && captured.head.state == VITRINE_CAPTURE_NO_OPERAND)
    return ValueError{
        fmt::format("too much arithmetic is requested: at most {} numbers and "
                    "operators for one probe",
                    VITRINE_CALCULATION_STEPS)};
  if (capture.length_argument && *capture.length_argument < errors_.size() &&
      !errors_[*capture.length_argument].empty())
    return ValueError{"its length: " + errors_[*capture.length_argument]};
  // No string is not one that could not be read.
  const bool follows = capture.form == Form::text || capture.form == Form::bytes;
  if (follows && captured.head.state == VITRINE_CAPTURE_UNREADABLE && captured.head.value == 0)
    return probe::PointerValue{.address = 0, .is_absent = true};
  return ValueError{reason(captured.head.state, captured.head.value)};
}

}  // namespace vitrine::observe
