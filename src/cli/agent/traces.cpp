#include "cli/agent/traces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include "base/clock.hpp"
#include "cli/output/live.hpp"
#include "cli/shell/confinement.hpp"
#include "cli/shell/report.hpp"
#include "observe/process/facts.hpp"
#include "query/reduction.hpp"

namespace vitrine::cli {
namespace {

using std::chrono::milliseconds;

/// Doubles while nothing comes: twenty looks a second took 0.1 % of a CPU. What fires meanwhile waits in
/// the kernel's buffer, or is added up there.
constexpr milliseconds between_looks{50}, longest_between_looks{200};
constexpr milliseconds publish_interval{1000};
constexpr milliseconds handing_over{20};     ///< until all CPUs see the time
constexpr milliseconds longest_drain{1000};  ///< of all that end at a time
constexpr std::chrono::seconds renew_interval{5};
constexpr std::chrono::seconds retry_interval{60};  ///< of what could not be attached, unchanged

/// Why a file is not seen here that others see, and what helps; empty: it is not so.
std::string hidden_place(const TraceTable& table) {
  using namespace std::string_literals;
  const auto differs = [](const std::string& path) {
    const auto here = sandbox::path_status(path);
    if (!here && here.error().code == ErrorCode::limit) return false;
    const auto outside = sandbox::path_status("/proc/1/root" + path);
    if (!outside) return here && (here->mode & 0777U) == 0;  // as systemd leaves it
    return !here || here->identity.device != outside->identity.device ||
           here->identity.inode != outside->identity.inode;
  };
  for (const std::string& path : table.options.target.files) {
    for (const char* home : {"/home", "/root", "/run/user"})
      if (path.starts_with(home + "/"s) && differs(home))
        return fmt::format(
            "this service does not see files below {}; `systemctl edit vitrine-agent`, and set "
            "ProtectHome=read-only below [Service]",
            home);
    if (!sandbox::path_status(path) && differs(path))
      return fmt::format("it is in another file system; set file = \"/proc/1/root{}\"", path);
  }
  return {};
}

/// It may have been written to since.
bool is_same_file(const sandbox::FileIdentity& one, const sandbox::FileIdentity& other) {
  return one.device == other.device && one.inode == other.inode;
}

}  // namespace

Result<std::unique_ptr<AgentTraces>> AgentTraces::open(const std::vector<TraceTable>& tables,
                                                       const AgentTraces* before) {
  std::unique_ptr<AgentTraces> traces(new AgentTraces);
  for (const TraceTable& table : tables) {
    auto running = std::make_unique<Running>(table);
    const bool is_kept = before != nullptr && before->find(table) != nullptr;
    if (!is_kept) TRY(traces->attach(*running, before != nullptr));
    traces->running_.push_back(std::move(running));
  }
  traces->published_.resize(tables.size());
  for (std::size_t i = 0; i < tables.size(); ++i) traces->publish(i);
  return traces;
}

AgentTraces::~AgentTraces() {
  (void)end();
}

Result<std::vector<sandbox::FileIdentity>> AgentTraces::identities_of(const TraceTable& table) {
  std::vector<sandbox::FileIdentity> identities;
  for (const std::string& path : table.options.target.files) {
    const auto status = sandbox::path_status(path);
    if (!status && status.error().code == ErrorCode::limit) return tl::unexpected(status.error());
    identities.push_back(status ? status->identity : sandbox::FileIdentity{});
  }
  return identities;
}

const AgentTraces::Running* AgentTraces::find(const TraceTable& table) const {
  const auto its = std::ranges::find_if(
      running_, [&](const auto& running) { return running->table.identity == table.identity; });
  return its == running_.end() ? nullptr : its->get();
}

/// Where a file is not there, it is waited for.
Result<void> AgentTraces::attach(Running& running, bool is_held) {
  running.files = identities_of(running.table).value_or(std::vector<sandbox::FileIdentity>());
  running.tried = Clock::now();
  observe::TraceOptions options = running.table.options;
  options.stop = &interrupted();
  options.held = is_held;
  auto opened = observe::Trace::open(std::move(options));
  if (!opened)
    if (std::string hidden = hidden_place(running.table); !hidden.empty())
      opened = fail(ErrorCode::not_found, fmt::format("{}: {}", opened.error().message, hidden));
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
  if (running.start_ns == 0) running.start_ns = unix_time_ns();
  return {};
}

/// Attaches anew where a file is another one now.
void AgentTraces::renew(Running& running) {
  // What opens files may have to be started for it, and has the capabilities that are in effect then.
  const auto files = with_in_effect(held_back_, [&] { return identities_of(running.table); });
  if (!files) return;
  if (running.trace != nullptr && running.files.empty()) running.files = *files;
  const bool is_there = *files != std::vector<sandbox::FileIdentity>(files->size());
  // What is attached stays so, also where the file is written to in place. attach() keeps what it tried.
  const bool is_other = running.trace == nullptr
                            ? *files != running.files
                            : !std::ranges::equal(*files, running.files, is_same_file);
  const bool is_again = running.trace == nullptr && Clock::now() - running.tried >= retry_interval;
  if (!is_there || (!is_other && !is_again)) return;
  const bool is_update = running.trace != nullptr;
  if (is_update) {
    drain(running, Clock::now() + longest_drain);
    keep_counts(running);
  }
  running.trace.reset();
  const auto attached = with_in_effect(held_back_, [&] { return attach(running, false); });
  if (!attached) {
    if (running.problem != attached.error().message) note(attached.error().message);
    running.problem = attached.error().message;
  } else if (running.trace != nullptr) {
    note(fmt::format(
        "trace {}: {}", running.table.name,
        is_update ? "a file was replaced; the new one is traced" : "its files are there now"));
  }
}

void AgentTraces::begin(EventSenders senders, sandbox::Capabilities held_back) {
  senders_ = std::move(senders);
  held_back_ = held_back;
  if (running_.empty()) return;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    note(fmt::format("no thread for traces: {}; their probes are read at the end", error.what()));
  }
}

/// Until a time shortly ahead what ends counts, and from then on what is next.
void AgentTraces::hand_over(const AgentTraces& next) {
  const auto time = Clock::now() + handing_over;
  const std::uint64_t time_ns = kernel_time_ns(time);
  for (const auto& running : running_)
    if (running->trace && next.find(running->table) == nullptr)
      running->trace->set_period(0, time_ns);
  for (const auto& running : next.running_)
    if (running->trace) running->trace->set_period(time_ns, 0);
  std::this_thread::sleep_until(time);
  for (const auto& running : next.running_)
    if (running->trace) running->trace->set_period(0, 0);
}

/// Once: traces that have ended have nothing more.
EventSenders AgentTraces::end(AgentTraces* next) {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  if (next != nullptr) hand_over(*next);
  const auto until = Clock::now() + longest_drain;
  for (std::size_t i = 0; i < running_.size(); ++i) try {
      Running& running = *running_[i];
      const bool is_kept = next != nullptr && next->find(running.table) != nullptr;
      if (is_kept)
        poll(running);
      else
        drain(running, until);
      publish(i);
    } catch (const std::bad_alloc&) {
      continue;
    }
  if (next == nullptr) return std::move(senders_);
  for (std::size_t i = 0; i < next->running_.size(); ++i) {
    const auto its = std::ranges::find_if(running_, [&](const auto& running) {
      return running->table.identity == next->running_[i]->table.identity;
    });
    if (its == running_.end()) continue;
    next->running_[i] = std::move(*its);
    running_.erase(its);
    next->publish(i);
  }
  return std::move(senders_);
}

void AgentTraces::run() {
  auto next_publish = Clock::now();
  auto next_renew = Clock::now() + renew_interval;
  milliseconds pause = between_looks;
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
      if (more) {
        pause = between_looks;
        continue;
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, longest_between_looks);
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(between_looks);  // what could not be kept is left out
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

/// Takes its probes away; what has fired before counts, as far as it is read in time.
void AgentTraces::drain(Running& running, Clock::time_point until) {
  if (running.trace == nullptr) return;
  running.trace->detach();
  while (poll(running))
    if (Clock::now() >= until) {
      running.lost += running.trace->pass_over().value_or(0);
      return;
    }
}

/// What the trace that is about to end has counted.
void AgentTraces::keep_counts(Running& running) {
  if (!adds_up(running.table.options.query)) {
    running.lost += running.trace->counters().lost;
    return;
  }
  if (const auto table = running.trace->reduction()) query::merge(running.before, *table);
}

TraceMetrics AgentTraces::metrics_of(Running& running) {
  TraceMetrics made;
  made.start_ns = running.start_ns;
  if (running.start_ns == 0) return made;
  made.resource = observe::encoded_resource(0);
  if (adds_up(running.table.options.query)) {
    query::ReductionTable table = running.before;
    if (running.trace != nullptr)
      if (const auto now = running.trace->reduction()) query::merge(table, *now);
    query::sort_rows(table);
    table.lost += running.lost;
    made.metrics = running.metrics.of(table, wall_clock_offset_ns(), running.table.name);
    return made;
  }
  const auto count = [&](std::string_view name, std::uint64_t value, std::string_view description) {
    made.metrics.push_back(
        telemetry::plain_metric(telemetry::MetricKind::counter, name, value, description));
    made.metrics.back().points.front().attributes = {{trace_key, running.table.name}};
  };
  count("vitrine_trace_events", running.events, "Fires and pairs that were handed over.");
  const std::uint64_t lost = running.trace == nullptr ? 0 : running.trace->counters().lost;
  count("vitrine_trace_lost", running.lost + lost, lost_fires);
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
