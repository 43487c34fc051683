#include "query/subject.hpp"

#include <algorithm>
#include <iterator>

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

Bound bind(const Subject& subject, const Arguments& site, std::vector<Capture>& captures) {
  using From = Subject::Kind;
  using To = Bound::Kind;
  if (const auto argument = argument_of(subject, site)) {
    Capture capture = capture_of(site, *argument, subject.form);
    auto length = subject.length.argument;
    if (!subject.length.name.empty()) length = argument_named(site, subject.length.name);
    if (length && *length < site.operands.size()) capture.length_argument = length;
    if (subject.length.constant != 0) {
      capture.length = subject.length.constant;
      capture.length_argument.reset();
    }
    return {To::capture, slot_of(capture, captures), {}};
  }
  switch (subject.kind) {
    case From::argument:
    case From::named_argument:
      return {};
    case From::word:
    case From::label:
      return {To::label, 0, subject.name};
    case From::pid:
      return {To::pid, 0, {}};
    case From::tid:
      return {To::tid, 0, {}};
    case From::cpu:
      return {To::cpu, 0, {}};
    case From::comm:
      return {To::comm, 0, {}};
    case From::probe:
      return {To::probe, 0, {}};
    case From::trace_id:
      return {To::trace_id, 0, {}};
    case From::span_id:
      return {To::span_id, 0, {}};
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
    case Bound::Kind::trace_id:
      return id(fire.trace_id);
    case Bound::Kind::span_id:
      return id(fire.span_id);
  }
  return std::nullopt;
}

}  // namespace vitrine::query
