#include "observe/process/watch.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

namespace vitrine::observe {

Result<void> TracedProcesses::add(pid_t pid) {
  if (has(pid)) return {};
  target::FileDescriptor pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (pidfd) {
    alive_.emplace(pid, std::move(pidfd));
    return {};
  }
  if (errno == ESRCH)
    return fail(ErrorCode::not_found, fmt::format("no such process: {}", pid),
                "`vitrine ps --probes` lists processes with labels, context or probes");
  // EINVAL: a thread, not a process (or, in old kernels, no such thing at all).
  return fail(ErrorCode::not_found,
              fmt::format("{} is not a process: {}", pid, std::strerror(errno)),
              "give the ID of the process, not of one of its threads");
}

std::vector<pid_t> TracedProcesses::all() const {
  std::vector<pid_t> pids;
  for (const auto& [pid, pidfd] : alive_) pids.push_back(pid);
  return pids;
}

std::vector<pid_t> TracedProcesses::take_ended() {
  std::vector<pid_t> ended;
  for (auto at = alive_.begin(); at != alive_.end();) {
    pollfd end{at->second.get(), POLLIN, 0};
    if (::poll(&end, 1, 0) > 0) {
      ended.push_back(at->first);
      at = alive_.erase(at);
    } else {
      ++at;
    }
  }
  return ended;
}

namespace {

using std::chrono::milliseconds;

/// The dynamic linker is at work for some time after it has mapped a library.
constexpr std::array<milliseconds, 4> second_looks{milliseconds(2), milliseconds(20),
                                                   milliseconds(200), milliseconds(1000)};
constexpr milliseconds time_to_drain{1000};
/// Where processes come and go without a pause, they are looked at as often as this.
constexpr milliseconds event_pause{5};

}  // namespace

ProcessWatch::ProcessWatch(Listener& listener, bool follow) : listener_(listener), follow_(follow) {
  if (auto events = target::ProcessEvents::open())
    events_ = std::move(*events);
  else
    listener_.note(events.error().message + ": libraries loaded later will be missed");
}

Result<void> ProcessWatch::launch(const std::vector<std::string>& command) {
  auto held = Launched::hold(command);
  if (!held && held.error().code == ErrorCode::not_permitted) {
    listener_.note(held.error().message + ": its first actions may be missed");
    held = Launched::start(command);
  }
  launched_ = TRY(std::move(held));
  return processes_.add(launched_->pid());
}

void ProcessWatch::end_launched() {
  if (!launched_) return;
  if (std::string told = launched_->end(); !told.empty()) listener_.note(std::move(told));
}

void ProcessWatch::take_events() {
  if (!events_) return;
  for (const target::ProcessEvent& event : events_->take()) handle(event);
  // Once, however often one has changed since: else one that executes programs without end keeps us
  // at it without end.
  for (const pid_t pid : std::exchange(changed_, {})) listener_.changed(pid, false);
  if (events_->lost() == events_lost_) return;
  events_lost_ = events_->lost();
  for (const pid_t pid : processes_.all()) to_look_at_[pid] = {Clock::now(), 0};
}

void ProcessWatch::handle(const target::ProcessEvent& event) {
  using Kind = target::ProcessEvent::Kind;
  const pid_t pid = event.pid;
  switch (event.kind) {
    case Kind::forked:
      if (has(pid)) take_ended();  // whose number this one has
      changed_.erase(pid);
      if (changed_.erase(event.parent) != 0) listener_.changed(event.parent, false);
      listener_.forked(event.parent, pid);
      if (!follow_ || !has_had(event.parent)) return;
      lineage_.insert(pid);
      // The kernel knows it by its parent, as long as that lives.
      if (processes_.add(pid)) to_look_at_[pid] = {Clock::now(), 0};
      return;
    case Kind::exited:
      // What it did last may still be in the buffer, and what it forked in another CPU's events.
      if (lineage_.contains(pid) || (!has(pid) && listener_.knows(pid)))
        departed_.emplace_back(Clock::now() + time_to_drain, pid);
      return;
    case Kind::executed:
    case Kind::mapped:
      if (!has(pid) && !listener_.knows(pid) && !listener_.concerns(event)) return;
      changed_.insert(pid);
      look_again_soon(pid);
      return;
  }
}

void ProcessWatch::look_again_soon(pid_t pid) {
  to_look_at_[pid] = {Clock::now() + second_looks[0], 0};
}

void ProcessWatch::look_again() {
  const auto now = Clock::now();
  for (; !departed_.empty() && departed_.front().first <= now; departed_.pop_front()) {
    const pid_t pid = departed_.front().second;
    lineage_.erase(pid);
    if (!has(pid)) listener_.departed(pid);  // else another has its number already
  }
  for (auto at = to_look_at_.begin(); at != to_look_at_.end();) {
    auto& [when, count] = at->second;
    if (when > now) {
      ++at;
      continue;
    }
    listener_.changed(at->first, true);
    if (++count < second_looks.size()) {
      when = now + second_looks[count];
      ++at;
    } else {
      at = to_look_at_.erase(at);
    }
  }
}

void ProcessWatch::wait(milliseconds time) {
  auto end = Clock::now() + time;
  for (const auto& [pid, look] : to_look_at_) end = std::min(end, look.first);
  const auto left = [&] {
    return std::max(std::chrono::ceil<milliseconds>(end - Clock::now()), milliseconds(0));
  };
  const auto pause = std::chrono::ceil<milliseconds>(awake_ + event_pause - Clock::now());
  if (pause.count() > 0) std::this_thread::sleep_for(std::min(pause, left()));
  pollfd events{events_ ? events_->fd() : -1, POLLIN, 0};
  if (::poll(&events, 1, static_cast<int>(left().count())) > 0) awake_ = Clock::now();
}

void ProcessWatch::take_ended() {
  for (const pid_t pid : processes_.take_ended()) {
    to_look_at_.erase(pid);
    departed_.emplace_back(Clock::now() + time_to_drain, pid);
  }
}

bool ProcessWatch::ended() {
  take_ended();
  return processes_.empty();
}

}  // namespace vitrine::observe
