#include "cli/agent/traces.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include "cli/output/live.hpp"
#include "cli/shell/report.hpp"
#include "cli/trace/output.hpp"

namespace vitrine::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds between_looks{50};
constexpr milliseconds publish_interval{1000};
constexpr std::chrono::seconds renew_interval{5};
constexpr std::chrono::seconds retry_interval{60};  ///< of what could not be attached, unchanged

}  // namespace

Result<std::unique_ptr<AgentTraces>> AgentTraces::open(const std::vector<TraceTable>& tables) {
  std::unique_ptr<AgentTraces> traces(new AgentTraces);
  for (const TraceTable& table : tables) {
    auto running = std::make_unique<Running>(table);
    TRY(traces->attach(*running));
    traces->running_.push_back(std::move(running));
  }
  traces->published_.resize(tables.size());
  for (std::size_t i = 0; i < tables.size(); ++i) traces->publish(i);
  return traces;
}

AgentTraces::~AgentTraces() {
  (void)end();
}

std::vector<AgentTraces::Identity> AgentTraces::identities_of(const TraceTable& table) {
  std::vector<Identity> identities;
  for (const std::string& path : table.options.target.files) {
    struct stat status {};
    const bool is_there = ::stat(path.c_str(), &status) == 0;
    identities.push_back(is_there ? Identity{status.st_dev, status.st_ino,
                                             status.st_ctim.tv_sec * std::int64_t{1'000'000'000} +
                                                 status.st_ctim.tv_nsec}
                                  : Identity{});
  }
  return identities;
}

/// Where a file is not there, it is waited for.
Result<void> AgentTraces::attach(Running& running) {
  running.files = identities_of(running.table);
  running.tried = Clock::now();
  observe::TraceOptions options = running.table.options;
  options.stop = &interrupted();
  auto opened = observe::Trace::open(std::move(options));
  if (!opened && opened.error().code == ErrorCode::not_found) {
    if (const std::string& problem = opened.error().message; running.problem != problem)
      note(fmt::format("trace {}: {}; waiting for it", running.table.name, problem));
    running.problem = opened.error().message;
    return {};
  }
  if (!opened) {
    opened.error().message =
        fmt::format("trace {}: {}", running.table.name, opened.error().message);
    return tl::unexpected(std::move(opened.error()));
  }
  running.trace = std::move(*opened);
  running.problem.clear();
  running.start_ns = telemetry::unix_time_ns();
  running.events = 0;
  running.metrics = ReductionMetrics(limits::metric_groups, running.table.label_values);
  return {};
}

/// Attaches anew where a file is another one now.
void AgentTraces::renew(Running& running) {
  const auto files = identities_of(running.table);
  const bool is_there = files != std::vector<Identity>(files.size());
  // What is attached stays so, also where the file is written to in place. attach() keeps what it tried.
  const bool is_other = running.trace == nullptr
                            ? files != running.files
                            : !std::ranges::equal(files, running.files, &Identity::is_same_file);
  const bool is_again = running.trace == nullptr && Clock::now() - running.tried >= retry_interval;
  if (!is_there || (!is_other && !is_again)) return;
  const bool is_update = running.trace != nullptr;
  if (is_update) drain(running);
  running.trace.reset();
  const auto attached = attach(running);
  if (!attached) {
    if (running.problem != attached.error().message) note(attached.error().message);
    running.problem = attached.error().message;
  } else if (running.trace != nullptr) {
    note(fmt::format(
        "trace {}: {}", running.table.name,
        is_update ? "a file was replaced; its counters begin at 0" : "its files are there now"));
  }
}

void AgentTraces::begin(EventSenders senders) {
  senders_ = std::move(senders);
  if (running_.empty()) return;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    note(fmt::format("no thread for traces: {}; their probes are read at the end", error.what()));
  }
}

EventSenders AgentTraces::end() {
  stop_ = true;
  if (thread_.joinable())
    thread_.join();
  else
    finish();
  return std::move(senders_);
}

void AgentTraces::run() {
  auto next_publish = Clock::now();
  auto next_renew = Clock::now() + renew_interval;
  while (!stop_) try {
      bool more = false;
      for (const auto& running : running_) more = poll(*running) || more;
      for (TraceSender* sender : {senders_.spans.get(), senders_.logs.get()})
        if (sender != nullptr) {
          sender->take_out();
          sender->print_notes();
        }
      const auto now = Clock::now();
      if (now >= next_publish) {
        for (std::size_t i = 0; i < running_.size(); ++i) publish(i);
        next_publish = now + publish_interval;
      }
      if (now >= next_renew) {
        for (const auto& running : running_)
          if (!stop_ && !interrupted()) renew(*running);
        next_renew = now + renew_interval;
      }
      if (!more) std::this_thread::sleep_for(between_looks);
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(between_looks);  // what could not be kept is left out
    }
  finish();
}

/// Once: detached traces have nothing more.
void AgentTraces::finish() {
  for (std::size_t i = 0; i < running_.size(); ++i) try {
      drain(*running_[i]);
      publish(i);
    } catch (const std::bad_alloc&) {
      continue;
    }
}

/// Whether something came.
bool AgentTraces::poll(Running& running) {
  if (running.trace == nullptr) return false;
  TraceSender* const sender = running.table.signal() == exporter::Signal::traces
                                  ? senders_.spans.get()
                                  : senders_.logs.get();
  const auto polled = running.trace->poll(milliseconds(0), [&](const observe::TraceEvent& event) {
    ++running.events;
    if (sender != nullptr) sender->add(event);
  });
  for (const std::string& text : running.trace->take_notes())
    note(fmt::format("trace {}: {}", running.table.name, text));
  if (polled) return *polled > 0;
  if (running.problem != polled.error().message)
    note(fmt::format("trace {}: {}", running.table.name, polled.error().message));
  running.problem = polled.error().message;
  return false;
}

/// Takes its probes away; what has fired before counts.
void AgentTraces::drain(Running& running) {
  if (running.trace == nullptr) return;
  running.trace->detach();
  while (poll(running)) {
  }
}

TraceMetrics AgentTraces::metrics_of(Running& running) {
  TraceMetrics made;
  made.start_ns = running.start_ns;
  if (running.trace == nullptr) return made;
  made.resource = running.trace->resource();
  if (adds_up(running.table.options.query)) {
    if (const auto table = running.trace->reduction())
      made.metrics = running.metrics.of(*table, wall_clock_offset_ns(), running.table.name);
    return made;
  }
  const auto count = [&](std::string_view name, std::uint64_t value, std::string_view description) {
    made.metrics.push_back(
        telemetry::plain_metric(telemetry::MetricKind::counter, name, value, description));
    made.metrics.back().points.front().attributes = {{trace_key, running.table.name}};
  };
  count("vitrine_trace_events", running.events, "Fires and pairs that were handed over.");
  count("vitrine_trace_lost", running.trace->counters().lost, lost_fires);
  return made;
}

void AgentTraces::publish(std::size_t index) {
  TraceMetrics made = metrics_of(*running_[index]);
  const std::lock_guard lock(mutex_);
  published_[index] = std::move(made);
}

std::vector<TraceMetrics> AgentTraces::metrics() {
  const std::lock_guard lock(mutex_);
  return published_;
}

}  // namespace vitrine::cli
