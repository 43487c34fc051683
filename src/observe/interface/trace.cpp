// <vitrine/observe/trace.hpp>.
#include "observe/trace/trace.hpp"

#include <vitrine/observe/trace.hpp>

#include "observe/interface/convert.hpp"

namespace vitrine::observer {
inline namespace v1 {
namespace {

/// A fired value as the variant of Argument.
struct PublicValue {
  decltype(Argument::value) operator()(std::int64_t number) const { return number; }
  decltype(Argument::value) operator()(std::uint64_t number) const { return number; }
  decltype(Argument::value) operator()(double number) const { return number; }
  decltype(Argument::value) operator()(bool flag) const { return flag; }
  decltype(Argument::value) operator()(const probe::PointerValue& from) const {
    return Pointer{from.address};
  }
  decltype(Argument::value) operator()(const probe::EnumeratorValue& from) const {
    if (from.is_large && from.name.empty()) return static_cast<std::uint64_t>(from.value);
    return Enumerator{from.value, from.name};
  }
  decltype(Argument::value) operator()(const probe::StringValue& from) const {
    return Text{from.text, from.truncated};
  }
  decltype(Argument::value) operator()(const probe::BytesValue& from) const {
    return Binary{std::string(reinterpret_cast<const char*>(from.bytes.data()), from.bytes.size()),
                  from.truncated};
  }
  decltype(Argument::value) operator()(const probe::ListValue& from) const {
    Text lines;
    for (const std::string& item : from.items) lines.data += item + '\n';
    return lines;
  }
  decltype(Argument::value) operator()(const probe::ValueError& from) const {
    return Unreadable{from.message};
  }
};

TraceEvent public_event(const observe::TraceEvent& from) {
  TraceEvent to;
  to.time_ns = from.time_ns;
  to.pid = from.pid;
  to.tid = from.tid;
  to.cpu = from.cpu;
  to.comm = from.comm;
  to.probe = from.probe;
  to.module = from.module;
  to.site = from.site;
  to.arguments.reserve(from.arguments.size());
  for (const observe::FiredArgument& one : from.arguments) {
    Argument argument;
    argument.name = one.name;
    if (one.value) argument.value = std::visit(PublicValue{}, *one.value);
    to.arguments.push_back(std::move(argument));
  }
  if (from.labels != nullptr) to.labels = convert::label_set(*from.labels);
  to.labels_error = from.labels_error;
  for (const symbol::StackFrame& frame : from.stack)
    to.stack.push_back({frame.address, frame.function, frame.offset, frame.module, frame.inlined});
  return to;
}

}  // namespace

struct Trace::State {
  std::unique_ptr<observe::Trace> trace;
  bool is_polled = false;
};

Trace::Trace(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
Trace::Trace(Trace&&) noexcept = default;
Trace& Trace::operator=(Trace&&) noexcept = default;
Trace::~Trace() = default;

Result<Trace> Trace::open(const TraceOptions& options) {
  observe::TraceOptions inner;
  inner.target = {{options.pids.begin(), options.pids.end()}, options.files, options.command};
  inner.probes = options.probes;
  if (!options.where.empty()) {
    auto where = query::Expression::parse(options.where);
    if (!where) return convert::error(std::move(where.error()));
    inner.query.where = std::move(*where);
  }
  if (!options.show.empty()) {
    auto show = query::parse_items(options.show);
    if (!show) return convert::error(std::move(show.error()));
    inner.query.show = std::move(*show);
  }
  constexpr std::size_t max_string_bytes = 4096;
  if (options.string_bytes == 0 || options.string_bytes > max_string_bytes)
    return Error{ErrorCode::usage, "string_bytes is 1 to 4096", {}};
  inner.query.string_bytes = options.string_bytes;
  inner.follow = options.follow;
  inner.stacks = options.stacks;
  inner.force = options.force;
  inner.stop = options.stop;
  return convert::opened<Trace>(observe::Trace::open(inner), [](auto trace) {
    return Trace(std::make_unique<State>(State{std::move(trace)}));
  });
}

Result<std::size_t> Trace::poll(std::chrono::milliseconds timeout,
                                const std::function<void(const TraceEvent&)>& callback) {
  if (!callback) return Error{ErrorCode::usage, "poll() has nothing to call", {}};
  if (state_->is_polled)
    return Error{ErrorCode::usage, "poll() was called by its own callback", "return from it first"};
  const struct Polled {
    explicit Polled(bool& value) : is_polled(value) { is_polled = true; }
    ~Polled() { is_polled = false; }
    bool& is_polled;
  } polled(state_->is_polled);
  auto taken = state_->trace->poll(
      timeout, [&](const observe::TraceEvent& event) { callback(public_event(event)); });
  if (!taken) return convert::error(std::move(taken.error()));
  return *taken;
}

void Trace::detach() {
  state_->trace->detach();
}
void Trace::end_command() {
  state_->trace->end_command();
}
bool Trace::ended() {
  return state_->trace->ended();
}
std::uint64_t Trace::fires() const {
  return state_->trace->counters().fires;
}
std::uint64_t Trace::lost() const {
  return state_->trace->counters().lost;
}
std::vector<std::string> Trace::probes() const {
  return state_->trace->probes();
}
std::vector<std::string> Trace::take_notes() {
  return state_->trace->take_notes();
}

}  // namespace v1
}  // namespace vitrine::observer
