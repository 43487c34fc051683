#include "observe/trace/reduction.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "probe/evaluate.hpp"

namespace vitrine::observe {
namespace {

using query::Bound;
using query::ReductionKind;
using Role = TraceProgram::Role;

/// What the kernel can distinguish groups by.
bool is_groupable(const query::Item& item) {
  using Kind = query::Subject::Kind;
  switch (item.subject.kind) {
    case Kind::pid:
    case Kind::tid:
    case Kind::cpu:
    case Kind::comm:
    case Kind::module:
    case Kind::site:
    case Kind::function:
    case Kind::uid:
    case Kind::cgroup:
    case Kind::container:
    case Kind::stack:
      return false;
    default:
      return true;
  }
}

__u32 role_of(ReductionKind kind, Role role) {
  switch (kind) {
    case ReductionKind::count:
      return VITRINE_COUNT;
    case ReductionKind::histogram:
      return VITRINE_HISTOGRAM;
    case ReductionKind::sum:
      return VITRINE_SUM;
    case ReductionKind::latency:
      return role == Role::start ? VITRINE_LATENCY_START : VITRINE_LATENCY_END;
  }
  return VITRINE_COUNT;
}

/// Starts that made room for others. The kernel does not count them, but no more than these still
/// wait.
std::uint64_t forgotten(const bpf::TracerCounters& counters) {
  const std::uint64_t gone =
      counters[VITRINE_TRACE_STARTS_ENDED] + counters[VITRINE_TRACE_STARTS_LOST];
  const std::uint64_t made = counters[VITRINE_TRACE_STARTS];
  return made > gone + limits::pending_starts ? made - gone - limits::pending_starts : 0;
}

query::Number number_in(std::uint64_t bits, bool is_signed) {
  if (is_signed) return static_cast<std::int64_t>(bits);
  return bits;
}

}  // namespace

TraceReduction::TraceReduction(const TraceQuery& query, std::span<const query::Selected> selected)
    : query_(*query.reduction),
      redaction_(query.redaction),
      selected_(selected),
      here_(*query.reduction) {
  // A start and its end must be added up in the same place, whichever is seen first.
  has_condition_ = query.where.has_value();
  latency_here_ = query.where || !std::all_of(query_.by.begin(), query_.by.end(), is_groupable);
}

std::optional<std::size_t> TraceReduction::selected_index(const Bound& subject) const {
  std::vector<query::Selected> wanted;
  query::select(subject, wanted);
  if (wanted.empty()) return std::nullopt;
  const auto found = std::find(selected_.begin(), selected_.end(), wanted.front());
  if (found == selected_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - selected_.begin());
}

bool TraceReduction::fits_kernel(const TraceProgram& program,
                                 const query::Compiled& condition) const {
  if (query_.exemplars) return false;  // it knows no span
  const query::BoundReduction& reduction = *program.reduction();
  const auto is_number = [&](const std::optional<Bound>& subject) {
    return subject && subject->kind == Bound::Kind::capture && subject->slot < VITRINE_CAPTURES &&
           program.is_integer(subject->slot);
  };
  if (query_.kind == ReductionKind::latency) {
    if (latency_here_) return false;
    if (query_.match && !is_number(reduction.match)) return false;
  }
  if (!condition.left_over.empty()) return false;
  const bool valued = query_.kind == ReductionKind::histogram || query_.kind == ReductionKind::sum;
  if (valued && (!is_number(reduction.value) || program.hides(reduction.value->slot))) return false;
  std::size_t arguments = 0;
  for (const Bound& subject : reduction.by) {
    if (subject.kind == Bound::Kind::capture && subject.slot < VITRINE_CAPTURES &&
        program.is_key(subject.slot))
      ++arguments;
    else if (subject.kind != Bound::Kind::nothing && subject.kind != Bound::Kind::probe &&
             !selected_index(subject))
      return false;
  }
  return arguments <= VITRINE_GROUP_ARGUMENTS;
}

/// One for each way to read a row. Sites of a probe may have an argument in different types, may lack it, or hide it: the
/// same bits are different values there. Rows of equal values become one later.
std::uint32_t TraceReduction::number_of(const TraceProgram& program) {
  const query::BoundReduction& reduction = *program.reduction();
  std::string name = program.probe();
  const auto add = [&](const Bound& subject) {
    name += fmt::format("\n{}", static_cast<int>(subject.kind));
    if (subject.kind != Bound::Kind::capture) return;
    name += program.reading(subject.slot);
    if (program.hides(subject.slot)) name += " hidden";
  };
  for (const Bound& subject : reduction.by) add(subject);
  if (reduction.value) name += program.is_signed(reduction.value->slot) ? "\nsigned" : "\nunsigned";
  const auto [known, fresh] =
      numbers_.try_emplace(std::move(name), static_cast<std::uint32_t>(numbered_.size()));
  if (fresh) numbered_.push_back(&program);
  return known->second;
}

/// One for all starts and ends of a latency; of calls, one for each function.
std::uint32_t TraceReduction::pair_of(const TraceProgram& program) {
  const auto next = static_cast<std::uint32_t>(pairs_.size());
  return pairs_.try_emplace(query_.of_calls ? program.probe() : std::string(), next).first->second;
}

std::optional<KernelReduction> TraceReduction::in_kernel(const TraceProgram& program,
                                                         const query::Compiled& condition) {
  if (!fits_kernel(program, condition)) return std::nullopt;
  KernelReduction kernel;
  kernel.role = role_of(query_.kind, program.role());
  if (query_.kind == ReductionKind::latency) kernel.pair = pair_of(program);
  if (program.role() == Role::start) return kernel;  // it has no rows
  kernel.number = number_of(program);
  for (const Bound& subject : program.reduction()->by) {
    if (subject.kind == Bound::Kind::capture)
      kernel.group.push_back(static_cast<std::uint8_t>(subject.slot));
    else if (const auto index = selected_index(subject))
      kernel.group_labels = static_cast<std::uint8_t>(kernel.group_labels | 1U << *index);
  }
  return kernel;
}

Result<query::ReductionTable> TraceReduction::table(bpf::Tracer& tracer) const {
  query::ReductionTable table = here_.table();
  if (numbered_.empty() && pairs_.empty()) {
    if (query_.of_calls && has_condition_) table.without_start = table.without_end = 0;
    return table;
  }
  auto rows = TRY(tracer.read_reductions());
  std::vector<query::ReductionRow> of_kernel;
  for (const bpf::ReductionRow& row : rows) {
    if (row.probe >= numbered_.size() || row.count == 0) continue;
    if (row.others)
      query::merge(table.others, row_of(row));
    else
      of_kernel.push_back(row_of(row));
  }
  query::merge_rows(table, std::move(of_kernel));  // fires of unknown processes were added up here
  const bpf::TracerCounters counters = tracer.counters();
  table.unread += counters[VITRINE_TRACE_UNREADABLE];
  table.without_start += counters[VITRINE_TRACE_ENDS_UNMATCHED];
  table.without_end += counters[VITRINE_TRACE_STARTS_LOST] + forgotten(counters);
  table.cut_texts += counters[VITRINE_TRACE_NAMES_CUT];
  table.without_text += counters[VITRINE_TRACE_NAMES_FULL];
  table.lost += counters[VITRINE_TRACE_BUCKETS_FULL] + counters[VITRINE_TRACE_BUSY];
  // Calls that the condition does not hold for have no start, or no end.
  if (query_.of_calls && query_.match == std::nullopt && has_condition_)
    table.without_start = table.without_end = 0;
  query::sort_rows(table);
  return table;
}

query::ReductionRow TraceReduction::row_of(const bpf::ReductionRow& raw) const {
  const TraceProgram& program = *numbered_[raw.probe];
  const query::BoundReduction& reduction = *program.reduction();
  query::ReductionRow row;
  row.probe = program.probe();
  row.count = raw.count;
  std::size_t argument = 0;
  if (!raw.others)
    for (const Bound& subject : reduction.by) {
      row.widths.push_back(subject.width);
      query::Key& key = row.keys.emplace_back(key_of(program, subject, raw, argument));
      if (key && hides(program, subject)) key = probe::redacted(*key, redaction_);
    }
  if (query_.kind == ReductionKind::count) return row;
  const bool is_signed = reduction.value && program.is_signed(reduction.value->slot);
  row.sum = query::Sum::of_halves(raw.sum, raw.sum_high);
  row.least = number_in(raw.least, is_signed);
  row.greatest = number_in(raw.most, is_signed);
  for (const auto& [bucket, count] : raw.buckets) row.histogram.add(bucket, count);
  return row;
}

/// As the view of a fire hides it that user space adds up (fire_view.cpp).
bool TraceReduction::hides(const TraceProgram& program, const Bound& subject) const {
  switch (subject.kind) {
    case Bound::Kind::capture:
      return program.hides(subject.slot);
    case Bound::Kind::label:
      return redaction_.covers_label(subject.key);
    case Bound::Kind::trace_id:
      return redaction_.covers_label("trace_id");
    case Bound::Kind::span_id:
      return redaction_.covers_label("span_id");
    default:
      return false;
  }
}

query::Key TraceReduction::key_of(const TraceProgram& program, const Bound& subject,
                                  const bpf::ReductionRow& raw, std::size_t& argument) const {
  if (subject.kind == Bound::Kind::nothing) return std::nullopt;
  if (subject.kind == Bound::Kind::probe) return probe::StringValue{program.probe(), false};
  if (subject.kind == Bound::Kind::capture) {
    if (argument >= raw.arguments.size()) return std::nullopt;
    const bpf::ReductionRow::Argument& part = raw.arguments[argument++];
    if (part.text) return probe::StringValue{*part.text, part.cut};
    return program.key(subject.slot, part.value);
  }
  const auto index = selected_index(subject);
  if (!index || *index >= raw.labels.size() || !raw.labels[*index]) return std::nullopt;
  const bpf::ReductionRow::Label& label = *raw.labels[*index];
  if (!label.text) return probe::ValueError{"its text did not fit"};
  return probe::StringValue{*label.text, label.cut};
}

}  // namespace vitrine::observe
