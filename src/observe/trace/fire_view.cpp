#include "observe/trace/fire_view.hpp"

#include "base/text.hpp"
#include "format/redact.hpp"
#include "observe/events/decoded_sets.hpp"
#include "probe/evaluate.hpp"

namespace vitrine::observe {
const DisplayedLabels& RedactedLabels::of(const DisplayedLabels& labels,
                                          const Redaction& redaction) {
  const auto made = [&] {
    return DisplayedLabels{format::redacted(labels.set, redaction), labels.error, labels.id,
                           labels.lacks_keys};
  };
  if (labels.id == 0) return once_ = made();
  if (const auto known = kept_.find(labels.id); known != kept_.end()) return known->second;
  DisplayedLabels redacted = made();
  const std::size_t bytes = decoded_bytes(redacted.set) + redacted.error.size();
  if (kept_.size() >= max_sets || bytes_ + bytes > max_bytes) {
    kept_.clear();
    bytes_ = 0;
  }
  bytes_ += bytes;
  return kept_.emplace(labels.id, std::move(redacted)).first->second;
}

std::optional<std::string_view> FireView::Labels::value(std::string_view key) const {
  for (const format::Label& label : set_->labels)
    if (label.key == key) return label.value;
  return std::nullopt;
}

FireView::FireView(const bpf::Fire& fire, const TraceProgram& program, const TracedSite& site,
                   const DisplayedLabels& labels)
    : fire_(fire),
      fired_(&labels),
      labels_(labels.set),
      values_(program.values(fire.captures)),
      comm_(fire.comm()) {
  take_ids();
  query_.probe = program.probe();
  query_.module = site.file->path;
  query_.function = site.function;
  query_.site = site.address;
  query_.values = values_;
  query_.labels = &labels_;
  query_.comm = comm_;
  query_.time_ns = fire.head.event.time_ns;
  query_.process_start_ns = fire.head.event.process_start_ns;
  query_.pid = fire.head.event.pid;
  query_.tid = fire.head.event.tid;
  query_.cpu = fire.head.event.cpu;
  query_.uid = fire.head.uid;
}

void FireView::take_ids() {
  const auto& trace = fired_->set.trace;
  trace_id_ = trace ? hex_text(trace->trace_id) : std::string();
  span_id_ = trace ? hex_text(trace->span_id) : std::string();
  query_.trace_id = trace_id_;
  query_.span_id = span_id_;
}

void FireView::redact(const TraceProgram& program, const DisplayedLabels& labels,
                      const Redaction& redaction) {
  fired_ = &labels;
  labels_ = Labels(labels.set);
  take_ids();
  for (std::uint32_t slot = 0; slot < values_.size(); ++slot)
    if (program.hides(slot)) values_[slot] = probe::redacted(values_[slot], redaction);
  // Ids of which one is hidden are labels.
  if (!redaction.covers_label("trace_id") && !redaction.covers_label("span_id")) return;
  const auto id = [&](std::string_view key, std::string& into) {
    if (const auto value = labels_.value(key); into.empty() && value) into = *value;
  };
  id("trace_id", trace_id_);
  id("span_id", span_id_);
  query_.trace_id = trace_id_;
  query_.span_id = span_id_;
}

void FireView::take_origin(const Cgroup& cgroup) {
  query_.cgroup = cgroup.path;
  query_.container = cgroup.container;
}

void FireView::take_stack(const std::vector<symbol::StackFrame>& frames) {
  for (const symbol::StackFrame& frame : frames) {
    const std::string file(file_name(frame.module));
    std::string text = frame.function.empty() ? hex(frame.address) : frame.function;
    if (frame.inlined)
      text += " inlined";
    else if (!frame.function.empty() && frame.offset)
      text += '+' + hex(*frame.offset);
    stack_.push_back(text + " (" + (file.empty() ? "?" : file) + ')');
  }
  query_.stack = &stack_;
}

namespace {

std::vector<FiredArgument> shown_arguments(const TraceProgram& program, const query::Fire& fire) {
  std::vector<FiredArgument> arguments;
  arguments.reserve(program.shown().size());
  for (const ShownArgument& shown : program.shown())
    arguments.push_back(
        {shown.name, shown.format, query::value_of(shown.subject, fire), shown.subject.width});
  return arguments;
}

}  // namespace

PairStart start_of(const bpf::Fire& fire, const TraceProgram& program, const TracedSite& site,
                   const Redaction& redaction) {
  PairStart start;
  start.time_ns = fire.start.began;
  start.probe = program.probe();
  start.module = site.file->path;
  start.site = site.address;
  start.cut = fire.start.cut != 0;
  auto values = program.values(fire.start_captures);
  for (std::uint32_t slot = 0; redaction.any() && slot < values.size(); ++slot)
    if (program.hides(slot)) values[slot] = probe::redacted(values[slot], redaction);
  query::Fire its;
  its.values = values;
  start.arguments = shown_arguments(program, its);
  return start;
}

TraceEvent FireView::event(const TraceProgram& program) const {
  TraceEvent event;
  event.time_ns = fire_.head.event.time_ns;
  event.pid = fire_.head.event.pid;
  event.tid = fire_.head.event.tid;
  event.cpu = fire_.head.event.cpu;
  event.comm = comm_;
  event.probe = program.probe();
  event.module = query_.module;
  event.site = query_.site;
  event.address = fire_.head.address;
  event.arguments = shown_arguments(program, query_);
  event.labels = &fired_->set;
  event.labels_id = fired_->id;
  event.labels_error = fired_->error;
  event.cut = (fire_.head.event.flags & VITRINE_FIRE_CUT) != 0;
  return event;
}

}  // namespace vitrine::observe
