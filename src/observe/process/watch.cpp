#include "observe/process/watch.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "base/signals.hpp"
#include "target/proc_file.hpp"
#include "target/process.hpp"

namespace vitrine::observe {
namespace {

using std::chrono::milliseconds;

/// The dynamic linker is at work for some time after it has mapped a library.
constexpr std::array second_looks{milliseconds(2), milliseconds(20), milliseconds(200),
                                  milliseconds(1000)};
/// Most programs of a build have ended before the first of these.
constexpr std::array fewer_second_looks{milliseconds(20), milliseconds(1000)};
/// Where processes come and go without a pause, they are looked at as often as this.
constexpr milliseconds event_pause{5};

FileDescriptor open_pidfd(pid_t pid) {
  return FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

/// Whether all threads of its process have.
bool has_ended(const FileDescriptor& pidfd) {
  pollfd end{pidfd.get(), POLLIN, 0};
  return ::poll(&end, 1, 0) > 0;
}

bool is_gone(const ObservedProcess& process) {
  return process.has_pid() && !open_pidfd(process.pid()) && errno == ESRCH;
}

}  // namespace

ProcessWatch::ProcessWatch(ProcessRegistry& processes, Listener& listener, bool follow)
    : processes_(processes),
      listener_(listener),
      follow_(follow),
      pause_(event_pause),
      longest_pause_(event_pause) {
  if (auto events = target::ProcessEvents::open())
    events_ = std::move(*events);
  else
    listener_.note(events.error().message + ": libraries loaded later will be missed");
}

Result<void> ProcessWatch::add(pid_t pid) {
  TRY(target::require_own_proc());
  const std::uint64_t there_ns = kernel_time_ns();
  FileDescriptor pidfd = open_pidfd(pid);
  if (!pidfd && (errno == ESRCH || pid <= 0))
    return fail(ErrorCode::not_found, fmt::format("no such process: {}", pid),
                "`vitrine ps --probes` lists processes with labels, context or probes");
  // EINVAL: a thread, not a process (or, in old kernels, no such thing at all).
  if (!pidfd)
    return fail(ErrorCode::not_found,
                fmt::format("{} is not a process: {}", pid, std::strerror(errno)),
                "give the ID of the process, not of one of its threads");
  if (!launched_ && has_ended(pidfd)) return target::zombie(pid);
  ObservedProcess* process = processes_.observe(pid, there_ns);
  if (process == nullptr) return fail(ErrorCode::limit, "too many processes");
  process->followed_ = true;
  if (process->is_target()) return {};
  process->pidfd_ = std::move(pidfd);
  targets_.push_back(process->shared_from_this());
  return {};
}

Result<void> ProcessWatch::add(std::span<const pid_t> pids) {
  std::vector<Error> missing;
  for (const pid_t pid : pids) {
    auto added = add(pid);
    if (added) continue;
    if (added.error().code != ErrorCode::not_found) return added;
    missing.push_back(std::move(added.error()));
  }
  if (!missing.empty() && targets_.empty()) return tl::unexpected(std::move(missing.front()));
  for (const Error& error : missing) listener_.note(error.message + ": it is left out");
  return {};
}

Result<void> ProcessWatch::launch(const std::vector<std::string>& command, bool to_stderr) {
  auto held = Launched::hold(command, to_stderr);
  if (!held && held.error().code == ErrorCode::not_permitted) {
    listener_.note(held.error().message + ": its first actions may be missed");
    held = Launched::start(command, to_stderr);
  }
  launched_ = TRY(std::move(held));
  return add(launched_->pid());
}

void ProcessWatch::end_launched() {
  if (!launched_) return;
  if (std::string text = launched_->end(); !text.empty()) listener_.note(std::move(text));
}

std::vector<ObservedProcess*> ProcessWatch::all() const {
  std::vector<ObservedProcess*> all;
  for (const auto& target : targets_) all.push_back(target.get());
  return all;
}

void ProcessWatch::take_events() {
  if (!events_) return;
  const std::vector<target::ProcessEvent> events = events_->take();
  concerned_ = false;
  for (const target::ProcessEvent& event : events) handle(event);
  if (concerned_)
    pause_ = event_pause;
  else if (!events.empty())
    pause_ = std::min(pause_ * 2, longest_pause_);
  // Once, however often one has changed since: else one that executes programs without end keeps us
  // at it without end.
  for (const auto& process : std::exchange(changed_, {})) take_change(*process);
  if (events_->lost() == events_lost_) return;
  events_lost_ = events_->lost();
  listener_.missed();
  for (const auto& target : targets_) look_at(*target, Clock::now());
  look_for_ends();
}

void ProcessWatch::collect_in_background() {
  if (!events_ || collector_->joinable()) return;
  const SignalsBlocked blocked;  // signals are for the other threads
  const auto collect = [events = events_.get()](const std::stop_token& stop) {
    const std::stop_callback end(stop, [events] { events->end_waits(); });
    while (!stop.stop_requested()) {
      events->wait_for_many();
      try {
        events->collect();
      } catch (const std::bad_alloc&) {  // they stay in the kernel's buffer
      }
    }
  };
  try {
    *collector_ = std::jthread(collect);
  } catch (const std::system_error&) {  // no thread can be started: take_events() collects
  }
}

ObservedProcess* ProcessWatch::process_of(const vitrine_event_header& record) {
  if (ObservedProcess* known = processes_.find(record)) return known;
  take_events();  // if it is gone already, its fork records what it was
  if (ObservedProcess* known = processes_.find(record)) return known;
  ObservedProcess* process = processes_.observe(record);
  if (process == nullptr)
    look_for_ends();
  else if (is_gone(*process))
    processes_.exited(*process);
  return process;
}

/// Finds processes whose end no event has reported.
void ProcessWatch::look_for_ends() {
  const auto now = Clock::now();
  if (now < looked_for_ends_ + ProcessRegistry::time_to_drain) return;
  looked_for_ends_ = now;
  processes_.for_each([&](ObservedProcess& process) {
    if (is_gone(process)) processes_.exited(process);
  });
}

void ProcessWatch::take_change(ObservedProcess& process) {
  if (std::exchange(process.changed_, false) && process.has_pid())
    listener_.changed(process, false);
}

void ProcessWatch::handle(const target::ProcessEvent& event) {
  using Kind = target::ProcessEvent::Kind;
  ObservedProcess* process = processes_.find(event.pid);
  concerned_ = concerned_ || process != nullptr;
  switch (event.kind) {
    case Kind::forked:
      if (process != nullptr && process->is_target()) take_ended();  // its PID is the child's
      if (ObservedProcess* parent = processes_.find(event.parent)) take_change(*parent);
      process = processes_.forked(event.parent, event.pid, event.time_ns);
      concerned_ = concerned_ || process != nullptr;
      // The kernel knows it by its parent, as long as that lives.
      if (!follow_ || process == nullptr || !process->followed_ || process->is_target()) return;
      if (add(event.pid)) look_at(*process, Clock::now());
      return;
    case Kind::exited:
      if (process != nullptr) process->main_thread_ended_ = true;
      // What it did last may still be in the buffer, and what it forked in another CPU's events.
      processes_.exited(event.pid, event.time_ns);
      return;
    case Kind::executed:
    case Kind::mapped:
      if (process == nullptr && listener_.concerns(event)) process = processes_.observe(event.pid);
      if (process == nullptr) return;
      concerned_ = true;
      if (event.kind == Kind::executed) {
        // A thread that executes ends the others first.
        if (std::exchange(process->main_thread_ended_, false))
          process->main_thread_replaced_ = true;
        listener_.executed(*process, event);
      } else {
        listener_.mapped(*process, event);
      }
      if (!std::exchange(process->changed_, true)) changed_.push_back(process->shared_from_this());
      look_again_soon(*process);
      return;
  }
}

void ProcessWatch::look_at(ObservedProcess& process, Clock::time_point when) {
  process.looks_ = 0;
  process.next_look_ = when;
  looks_.emplace(when, process.weak_from_this());
}

std::span<const milliseconds> ProcessWatch::second_looks_at(const ObservedProcess& process) const {
  if (looks_less_ && !process.is_target()) return fewer_second_looks;
  return second_looks;
}

void ProcessWatch::look_again_soon(ObservedProcess& process) {
  const auto now = Clock::now();
  const auto soon = now + second_looks_at(process).front();
  // One that maps code without a pause is looked at all the same: also if the look is due already, as changes come
  // together and are taken before it.
  if (process.next_look_ != Clock::time_point{} && process.next_look_ <= soon)
    process.looks_ = 0;
  else
    look_at(process, soon);
}

void ProcessWatch::look_again(std::uint64_t taken_until_ns) {
  const auto now = Clock::now();
  const Clock::time_point taken_until{std::chrono::nanoseconds(taken_until_ns)};
  for (const auto& process : processes_.take_departed(now, taken_until))
    listener_.departed(*process);
  while (!looks_.empty() && looks_.begin()->first <= now) {
    const auto [when, weak] = *looks_.begin();
    looks_.erase(looks_.begin());
    const auto process = weak.lock();
    if (!process || process->next_look_ != when || !process->has_pid()) continue;
    process->next_look_ = {};
    listener_.changed(*process, true);
    const std::span<const milliseconds> pauses = second_looks_at(*process);
    if (process->next_look_ != Clock::time_point{} || ++process->looks_ >= pauses.size()) continue;
    process->next_look_ = now + pauses[process->looks_];
    looks_.emplace(process->next_look_, weak);
  }
}

void ProcessWatch::wait(milliseconds time) {
  auto end = Clock::now() + time;
  if (!looks_.empty()) end = std::min(end, looks_.begin()->first);
  const auto left = [&] {
    return std::max(std::chrono::ceil<milliseconds>(end - Clock::now()), milliseconds(0));
  };
  const auto pause = std::chrono::ceil<milliseconds>(awake_ + pause_ - Clock::now());
  if (pause.count() > 0) std::this_thread::sleep_for(std::min(pause, left()));
  const milliseconds rest = left();
  if (rest.count() == 0) return;
  if (!events_)
    ::poll(nullptr, 0, static_cast<int>(rest.count()));
  else if (events_->wait(rest))
    awake_ = Clock::now();
}

void ProcessWatch::take_ended() {
  // All with one call: of a hundred processes it is made several times a second.
  std::vector<pollfd> ends;
  ends.reserve(targets_.size());
  for (const auto& target : targets_) ends.push_back({target->pidfd_.get(), POLLIN, 0});
  const int ended = ::poll(ends.data(), ends.size(), 0);
  if (ended == 0) return;
  std::size_t at = 0;
  std::erase_if(targets_, [&](const ProcessRegistry::Process& target) {
    const pollfd& end = ends[at++];
    if (ended > 0 ? end.revents == 0 : !has_ended(target->pidfd_)) return false;
    target->pidfd_ = {};
    target->next_look_ = {};
    processes_.exited(*target);
    return true;
  });
}

bool ProcessWatch::ended() {
  take_ended();
  return targets_.empty();
}

}  // namespace vitrine::observe
