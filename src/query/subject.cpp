#include "query/subject.hpp"

#include <algorithm>
#include <iterator>
#include <string>

namespace vitrine::query {

const probe::ArgumentType* type_of(const Arguments& site, std::uint32_t index) {
  const auto found = std::find_if(site.types.begin(), site.types.end(),
                                  [&](const auto& type) { return type.argument == index; });
  return found == site.types.end() ? nullptr : &*found;
}

std::optional<std::uint32_t> argument_named(const Arguments& site, std::string_view name) {
  for (const probe::ArgumentType& type : site.types)
    if (type.name == name && type.argument < site.operands.size()) return type.argument;
  return std::nullopt;
}

Capture capture_of(const Arguments& site, std::uint32_t index, Form form) {
  Capture capture{.argument = index, .form = form, .length = 0, .length_argument = {}};
  const probe::ArgumentType* type = type_of(site, index);
  if (form == Form::natural) {
    using probe::ValueKind;
    const ValueKind kind = type == nullptr ? ValueKind::integer : type->kind;
    const bool text = kind == ValueKind::c_string || kind == ValueKind::string_view;
    capture.form = text ? Form::text : kind == ValueKind::bytes ? Form::bytes : Form::number;
  }
  if (capture.form != Form::number && type != nullptr && type->length_argument &&
      *type->length_argument < site.operands.size())
    capture.length_argument = type->length_argument;
  return capture;
}

std::uint32_t slot_of(const Capture& wanted, std::vector<Capture>& captures) {
  auto found = std::find(captures.begin(), captures.end(), wanted);
  if (found == captures.end()) found = captures.insert(captures.end(), wanted);
  return static_cast<std::uint32_t>(std::distance(captures.begin(), found));
}

std::optional<std::uint32_t> argument_of(const Subject& subject, const Arguments& site) {
  switch (subject.kind) {
    case Subject::Kind::argument:
      if (subject.index < site.operands.size()) return subject.index;
      return std::nullopt;
    case Subject::Kind::named_argument:
    case Subject::Kind::word:
      return argument_named(site, subject.name);
    default:
      return std::nullopt;
  }
}

namespace {

/// Fills in the length that a subject asks for.
void take_length_of(const Subject& subject, const Arguments& site, Capture& capture) {
  auto length = subject.length.argument;
  if (!subject.length.name.empty()) length = argument_named(site, subject.length.name);
  if (length && *length < site.operands.size()) capture.length_argument = length;
  if (subject.length.constant != 0) {
    capture.length = subject.length.constant;
    capture.length_argument.reset();
  }
  const bool asked = length.has_value() || subject.length.constant != 0;
  capture.until_nul = asked && capture.form == Form::text;
}

/// What is known of a number before it is there.
struct NumberType {
  bool is_unsigned = false;  ///< of 64 bits: smaller ones fit the signed
  std::uint8_t size = 0;     ///< 0: a constant, as wide as what it meets
};

std::optional<std::uint32_t> argument_of(const WrittenStep& step, const Arguments& site) {
  if (!step.index) return argument_named(site, step.name);
  if (*step.index < site.operands.size()) return step.index;
  return std::nullopt;
}

bool is_constant(const WrittenStep& step) {
  return step.kind == VITRINE_CALCULATE_PUSH && !step.index && step.name.empty();
}

NumberType type_of_argument(const Arguments& site, std::uint32_t argument) {
  const vitrine_operand& operand = site.operands[argument];
  const probe::ArgumentType* type = type_of(site, argument);
  const auto kind = type == nullptr ? probe::ValueKind::integer : type->kind;
  bool is_signed = (operand.flags & VITRINE_SIGNED) != 0;
  if (kind == probe::ValueKind::pointer) is_signed = false;
  return {operand.size >= 8 && !is_signed, operand.size};
}

/// Why arithmetic cannot have this argument.
std::string not_an_integer(const Arguments& site, std::uint32_t argument) {
  const vitrine_operand& operand = site.operands[argument];
  const probe::ArgumentType* type = type_of(site, argument);
  const bool is_float = (operand.flags & VITRINE_FLOAT) != 0 ||
                        (type != nullptr && type->kind == probe::ValueKind::floating);
  const std::string which = "arithmetic requires integers: arg" + std::to_string(argument);
  if (is_float) return which + " is a floating-point number";
  if (operand.size > 8) return which + " has more than 8 bytes";
  return {};
}

/// All arguments of the steps are there.
void resolve(const std::vector<WrittenStep>& written, const Arguments& site, Capture& capture) {
  std::vector<NumberType> stack;  // the parser pushes before it pops
  Calculation& calculation = capture.calculation;
  for (const WrittenStep& from : written) {
    CalculationStep& step = calculation.steps.emplace_back();
    step.kind = from.kind;
    step.constant = from.constant;
    step.size = from.size;
    step.is_signed = from.is_signed;
    switch (from.kind) {
      case VITRINE_CALCULATE_PUSH:
        if (is_constant(from)) {
          stack.push_back({!from.is_signed, 0});
          break;
        }
        step.argument = argument_of(from, site);
        if (capture.problem.empty()) capture.problem = not_an_integer(site, *step.argument);
        stack.push_back(type_of_argument(site, *step.argument));
        break;
      case VITRINE_CALCULATE_LOAD:
        stack.back() = {from.size == 8 && !from.is_signed, from.size};
        break;
      case VITRINE_CALCULATE_NEGATE:
      case VITRINE_CALCULATE_INVERT:
        break;
      default: {
        const NumberType right = stack.back();
        stack.pop_back();
        NumberType& left = stack.back();
        const bool is_shift =
            from.kind == VITRINE_CALCULATE_SHIFT_LEFT || from.kind == VITRINE_CALCULATE_SHIFT_RIGHT;
        if (!is_shift) left.is_unsigned = left.is_unsigned || right.is_unsigned;
        left.size = std::max(left.size, right.size);
        step.is_signed = !left.is_unsigned;
      }
    }
  }
  calculation.is_signed = !stack.back().is_unsigned;
  calculation.size = stack.back().size == 0 ? 8 : stack.back().size;
}

Bound bind_calculated(const Subject& subject, const Arguments& site,
                      std::vector<Capture>& captures) {
  if (missing_operand(subject, site)) return {};
  Capture capture;
  capture.form = subject.form == Form::natural ? Form::number : subject.form;
  resolve(subject.calculation, site, capture);
  if (capture.form != Form::number) take_length_of(subject, site, capture);
  return {Bound::Kind::capture, slot_of(capture, captures), {}, capture.calculation.size};
}

}  // namespace

std::optional<std::string> missing_operand(const Subject& subject, const Arguments& site) {
  for (const WrittenStep& step : subject.calculation)
    if (step.kind == VITRINE_CALCULATE_PUSH && !is_constant(step) && !argument_of(step, site))
      return step.index ? "arg" + std::to_string(*step.index) : step.name;
  return std::nullopt;
}

bool reads(const Capture& capture, std::uint32_t argument) {
  if (capture.length_argument == argument) return true;
  if (!capture.is_calculated()) return capture.argument == argument;
  return std::any_of(capture.calculation.steps.begin(), capture.calculation.steps.end(),
                     [&](const CalculationStep& step) { return step.argument == argument; });
}

Bound bind(const Subject& subject, const Arguments& site, std::vector<Capture>& captures) {
  using From = Subject::Kind;
  using To = Bound::Kind;
  if (subject.kind == From::calculated) return bind_calculated(subject, site, captures);
  if (const auto argument = argument_of(subject, site)) {
    Capture capture = capture_of(site, *argument, subject.form);
    take_length_of(subject, site, capture);
    return {To::capture, slot_of(capture, captures), {}, site.operands[*argument].size};
  }
  switch (subject.kind) {
    case From::module:
      return {To::module, 0, {}, 8};
    case From::site:
      return {To::site, 0, {}, 8};
    case From::function:
      return {To::function, 0, {}, 8};
    case From::uid:
      return {To::uid, 0, {}, 8};
    case From::cgroup:
      return {To::cgroup, 0, {}, 8};
    case From::container:
      return {To::container, 0, {}, 8};
    case From::stack:
      return {To::stack, 0, {}, 8};
    case From::calculated:
    case From::argument:
    case From::named_argument:
      return {};
    case From::word:
    case From::label:
      return {To::label, 0, subject.name, 8};
    case From::pid:
      return {To::pid, 0, {}, 8};
    case From::tid:
      return {To::tid, 0, {}, 8};
    case From::cpu:
      return {To::cpu, 0, {}, 8};
    case From::comm:
      return {To::comm, 0, {}, 8};
    case From::probe:
      return {To::probe, 0, {}, 8};
    case From::trace_id:
      return {To::trace_id, 0, {}, 8};
    case From::span_id:
      return {To::span_id, 0, {}, 8};
  }
  return {};
}

void select(const Bound& subject, std::vector<Selected>& selected) {
  Selected wanted;
  switch (subject.kind) {
    case Bound::Kind::label:
      wanted.key = subject.key;
      break;
    case Bound::Kind::trace_id:
      wanted.kind = Selected::Kind::trace_id;
      break;
    case Bound::Kind::span_id:
      wanted.kind = Selected::Kind::span_id;
      break;
    default:
      return;
  }
  if (std::find(selected.begin(), selected.end(), wanted) == selected.end())
    selected.push_back(std::move(wanted));
}

std::optional<probe::Value> value_of(const Bound& subject, const Fire& fire) {
  const auto text = [](std::string_view bytes) {
    return probe::StringValue{std::string(bytes), false};
  };
  const auto id = [&](std::string_view hex) -> std::optional<probe::Value> {
    if (hex.empty()) return std::nullopt;
    return text(hex);
  };
  switch (subject.kind) {
    case Bound::Kind::nothing:
      return std::nullopt;
    case Bound::Kind::capture:
      if (subject.slot >= fire.values.size()) return std::nullopt;
      return fire.values[subject.slot];
    case Bound::Kind::label: {
      const auto value = fire.labels == nullptr ? std::nullopt : fire.labels->value(subject.key);
      if (!value) return std::nullopt;
      return text(*value);
    }
    case Bound::Kind::pid:
      return std::int64_t{fire.pid};
    case Bound::Kind::tid:
      return std::int64_t{fire.tid};
    case Bound::Kind::cpu:
      return std::int64_t{fire.cpu};
    case Bound::Kind::comm:
      return text(fire.comm);
    case Bound::Kind::probe:
      return text(fire.probe);
    case Bound::Kind::module:
      return id(fire.module);
    case Bound::Kind::site:
      return probe::PointerValue{.address = fire.site, .is_absent = false};
    case Bound::Kind::function:
      return id(fire.function);
    case Bound::Kind::uid:
      return std::int64_t{fire.uid};
    case Bound::Kind::cgroup:
      return id(fire.cgroup);
    case Bound::Kind::container:
      return id(fire.container);
    case Bound::Kind::stack:
      if (fire.stack == nullptr) return std::nullopt;
      return probe::ListValue{*fire.stack};
    case Bound::Kind::trace_id:
      return id(fire.trace_id);
    case Bound::Kind::span_id:
      return id(fire.span_id);
  }
  return std::nullopt;
}

}  // namespace vitrine::query
