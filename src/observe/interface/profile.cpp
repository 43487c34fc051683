// <vitrine/observe/profile.hpp>.
#include <optional>
#include <vitrine/observe/profile.hpp>

#include "observe/interface/convert.hpp"
#include "observe/profile/profiling.hpp"
#include "profile/encode.hpp"

namespace vitrine::observer {
inline namespace v1 {
namespace {

Frame::Kind public_kind(profile::FrameKind kind) {
  switch (kind) {
    case profile::FrameKind::native:
      return Frame::Kind::native;
    case profile::FrameKind::kernel:
      return Frame::Kind::kernel;
    case profile::FrameKind::jit:
      return Frame::Kind::jit;
    case profile::FrameKind::unknown:
      break;
  }
  return Frame::Kind::unknown;
}

/// The frames of a location: those inlined there, innermost first; at least one.
void add_frames(std::vector<Frame>& stack, const profile::Profile& tables,
                const profile::Location& location) {
  Frame frame;
  frame.kind = public_kind(location.kind);
  frame.address = location.address;
  if (location.mapping != profile::none) frame.module = tables.mappings[location.mapping].file;
  if (location.lines.empty()) stack.push_back(frame);
  for (const profile::Line& line : location.lines) {
    Frame inlined = frame;
    inlined.line = line.line;
    if (line.function != profile::none) {
      inlined.function = tables.functions[line.function].name;
      inlined.file = tables.functions[line.function].file;
    }
    stack.push_back(std::move(inlined));
  }
}

std::optional<profile::Encoding> private_encoding(Encoding encoding) {
  switch (encoding) {
    case Encoding::pprof:
      return profile::Encoding::pprof;
    case Encoding::otlp:
      return profile::Encoding::otlp;
    case Encoding::folded:
      return profile::Encoding::folded;
    case Encoding::speedscope:
      return profile::Encoding::speedscope;
    case Encoding::json:
      return profile::Encoding::json;
    case Encoding::html:
      return profile::Encoding::html;
  }
  return std::nullopt;
}

}  // namespace

struct Profile::State {
  profile::Profile profile;
};

Profile::Profile(std::shared_ptr<const State> state) noexcept : state_(std::move(state)) {}

std::size_t Profile::size() const noexcept {
  return state_->profile.samples.size();
}
std::uint64_t Profile::start_ns() const noexcept {
  return state_->profile.start_ns;
}
std::uint64_t Profile::duration_ns() const noexcept {
  return state_->profile.duration_ns;
}
std::uint64_t Profile::lost() const noexcept {
  return state_->profile.losses.events;
}
const std::vector<std::string>& Profile::problems() const noexcept {
  return state_->profile.problems;
}

Sample Profile::sample(std::size_t index) const {
  const profile::Profile& tables = state_->profile;
  const profile::Sample& from = tables.samples[index];
  Sample to;
  to.measure =
      from.measure == profile::Measure::on_cpu ? Sample::Measure::on_cpu : Sample::Measure::off_cpu;
  if (from.process != profile::none) {
    to.pid = static_cast<int>(tables.processes[from.process].pid);
    to.comm = tables.processes[from.process].command;
  }
  to.tid = static_cast<int>(from.tid);
  to.cpu = from.cpu;
  to.thread = from.thread_name;
  to.time_ns = from.time_ns;
  to.value_ns = from.value_ns;
  to.count = from.count;
  if (from.labels != profile::none)
    for (const profile::Label& label : tables.label_sets[from.labels])
      to.labels.push_back({label.key, label.value});
  if (from.link != profile::none) {
    const profile::Link& link = tables.links[from.link];
    to.trace = TraceContext{link.trace_id, link.span_id, std::nullopt};
  }
  if (from.stack != profile::none) {
    const profile::Stack& stack = tables.stacks[from.stack];
    to.stack_is_whole = stack.end == profile::StackEnd::outermost;
    for (const profile::Index location : stack.locations)
      add_frames(to.stack, tables, tables.locations[location]);
  }
  return to;
}

Result<std::string> Profile::encode(Encoding encoding, const EncodeOptions& options) const {
  const auto known = private_encoding(encoding);
  if (!known) return Error{ErrorCode::usage, "no such encoding of profiles", {}};
  profile::EncodeOptions inner;
  inner.group_by = options.group_by;
  inner.label_prefix = options.label_prefix;
  inner.title = options.title;
  return convert::opened<std::string>(profile::encode(state_->profile, *known, inner),
                                      [](std::string bytes) { return bytes; });
}

struct Profiler::State {
  std::unique_ptr<observe::Profiling> profiling;
};

Profiler::Profiler(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
Profiler::Profiler(Profiler&&) noexcept = default;
Profiler& Profiler::operator=(Profiler&&) noexcept = default;
Profiler::~Profiler() = default;

Result<Profiler> Profiler::open(const ProfileOptions& options) {
  observe::ProfilingOptions inner;
  inner.pids.assign(options.pids.begin(), options.pids.end());
  inner.command = options.command;
  inner.all = options.all;
  inner.follow = options.follow;
  inner.frequency = options.frequency;
  inner.on_cpu = options.on_cpu;
  inner.off_cpu = options.off_cpu;
  inner.min_block = options.min_block;
  inner.kernel_frames = options.kernel_frames;
  inner.symbols = options.symbols;
  inner.stop = options.stop;
  return convert::opened<Profiler>(observe::Profiling::open(inner), [](auto profiling) {
    return Profiler(std::make_unique<State>(State{std::move(profiling)}));
  });
}

Result<void> Profiler::poll(std::chrono::milliseconds timeout) {
  auto polled = state_->profiling->poll(timeout);
  if (!polled) return convert::error(std::move(polled.error()));
  return {};
}

std::size_t Profiler::waiting() const {
  return state_->profiling->waiting();
}
bool Profiler::ended() {
  return state_->profiling->ended();
}
void Profiler::stop() {
  state_->profiling->stop();
}
void Profiler::end_command() {
  state_->profiling->end_command();
}
Profile Profiler::take() {
  return Profile(std::make_shared<const Profile::State>(Profile::State{state_->profiling->take()}));
}
std::vector<std::string> Profiler::take_notes() {
  return state_->profiling->take_notes();
}

}  // namespace v1
}  // namespace vitrine::observer
