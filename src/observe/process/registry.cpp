#include "observe/process/registry.hpp"

#include <algorithm>
#include <utility>

namespace vitrine::observe {
namespace {

/// The kernel has a number of its own for a process that we cannot see.
pid_t registry_number(const vitrine_event_header& record) {
  return record.pid > 0 ? record.pid : -record.kernel_tgid;
}

}  // namespace

ObservedProcess* ProcessRegistry::find(pid_t pid) const {
  const auto slot = slots_.find(pid);
  return slot == slots_.end() ? nullptr : slot->second.now.get();
}

ObservedProcess* ProcessRegistry::find(const vitrine_event_header& record) {
  const auto found = slots_.find(registry_number(record));
  if (found == slots_.end()) return nullptr;
  const auto& [now, before] = found->second;
  for (ObservedProcess* process : {now.get(), before.get()})
    if (process != nullptr && process->start_ns_ == record.process_start_ns) return process;
  // By its first record a process gets its start time.
  const auto learn = [&](ObservedProcess& process) {
    process.start_ns_ = record.process_start_ns;
    process.record_ns_ = record.time_ns;
    return &process;
  };
  if (now && now->start_ns_ == 0 && now->since_ns_ <= record.time_ns) return learn(*now);
  if (before && before->start_ns_ == 0 && before->since_ns_ <= record.time_ns &&
      record.time_ns < before->superseded_ns_)
    return learn(*before);
  return nullptr;
}

ProcessRegistry::Process ProcessRegistry::make(pid_t number) {
  if (size_ >= most_) return nullptr;
  Process process = make_();
  process->number_ = number;
  ++size_;
  return process;
}

ObservedProcess* ProcessRegistry::observe(pid_t pid) {
  if (ObservedProcess* known = find(pid)) return known;
  Process process = make(pid);
  if (!process) return nullptr;
  auto& [now, before] = slots_[pid];
  if (before) process->since_ns_ = before->superseded_ns_;
  now = std::move(process);
  return now.get();
}

ObservedProcess* ProcessRegistry::observe(pid_t pid, std::uint64_t there_ns) {
  const bool is_new = find(pid) == nullptr;
  ObservedProcess* process = observe(pid);
  if (process != nullptr && is_new) process->there_ns_ = there_ns;
  return process;
}

ObservedProcess* ProcessRegistry::observe(const vitrine_event_header& record) {
  if (ObservedProcess* known = find(record)) return known;
  const pid_t number = registry_number(record);
  Process process = make(number);
  if (!process) return nullptr;
  process->start_ns_ = record.process_start_ns;
  process->record_ns_ = record.time_ns;
  process->by_record_ = true;
  Slot& slot = slots_[number];
  // A late record of a process that nothing is known of.
  const auto& [now, before] = slot;
  const bool older = now ? now->start_ns_ == 0 || now->start_ns_ > record.process_start_ns
                         : before && record.time_ns < before->superseded_ns_;
  if (older) {
    put_before(slot, std::move(process));
    return slot.before.get();
  }
  supersede(slot, record.time_ns);
  slot.now = std::move(process);
  return slot.now.get();
}

/// Another process has the PID, since `time_ns` at the latest.
void ProcessRegistry::supersede(Slot& slot, std::uint64_t time_ns) {
  if (!slot.now) return;
  slot.now->superseded_ns_ = time_ns;
  put_before(slot, std::exchange(slot.now, nullptr));
}

void ProcessRegistry::put_before(Slot& slot, Process process) {
  if (slot.before) {
    process->superseded_ns_ = std::max(process->superseded_ns_, slot.before->superseded_ns_);
    --size_;
  }
  slot.before = std::move(process);
  slot.before->superseded_ = true;
  if (!std::exchange(slot.before->ending_, true)) ended_.push_back(slot.before);
}

ObservedProcess* ProcessRegistry::forked(pid_t parent, pid_t child, std::uint64_t time_ns) {
  const auto family = slots_.find(parent);
  Process from;
  if (family != slots_.end()) {
    const auto& [now, before] = family->second;
    if (now && now->since_ns_ <= time_ns)
      from = now;
    else if (before && time_ns < before->superseded_ns_)
      from = before;
  }
  std::uint64_t start_ns = 0, record_ns = 0;
  if (const auto slot = slots_.find(child); slot != slots_.end() && slot->second.now) {
    ObservedProcess& now = *slot->second.now;
    if (now.is_target()) {  // which lives, so the fork is its own
      now.since_ns_ = time_ns;
      return &now;
    }
    if (time_ns <= now.there_ns_) {  // its own, or that of one before: it was there afterwards
      now.since_ns_ = std::max(now.since_ns_, time_ns);
      return nullptr;
    }
    const bool seen = now.start_ns_ != 0 && now.record_ns_ >= time_ns;
    if (seen && now.by_record_) {  // it is the child: its record came before its fork
      now.since_ns_ = time_ns;
      now.followed_ = from && from->followed_;
      return &now;
    }
    if (seen) {  // its record was taken for the process before
      start_ns = std::exchange(now.start_ns_, 0);
      record_ns = now.record_ns_;
    }
    supersede(slot->second, time_ns);
  }
  if (!from || size_ >= most_) return nullptr;
  Process process = from->child(child);
  process->number_ = child;
  process->start_ns_ = start_ns;
  process->record_ns_ = record_ns;
  process->since_ns_ = time_ns;
  process->followed_ = from->followed_;
  ++size_;
  Process& now = slots_[child].now;
  now = std::move(process);
  return now.get();
}

void ProcessRegistry::exited(pid_t pid, std::uint64_t time_ns) {
  const auto slot = slots_.find(pid);
  if (slot == slots_.end() || !slot->second.now) return;
  const auto& [now, before] = slot->second;
  // Of the process before, which has been replaced by now.
  if (time_ns < now->since_ns_ || time_ns < now->there_ns_ ||
      (before && time_ns < now->record_ns_ && now->by_record_))
    return;
  exited(*now);
}

void ProcessRegistry::exited(ObservedProcess& process) {
  if (process.is_target() || std::exchange(process.ending_, true)) return;
  ended_.push_back(process.shared_from_this());
}

std::vector<ProcessRegistry::Process> ProcessRegistry::take_departed(
    Clock::time_point now, Clock::time_point taken_until) {
  for (Process& process : ended_) draining_.emplace_back(now + time_to_drain, std::move(process));
  ended_.clear();
  std::vector<Process> departed;
  const auto until = std::min(now, taken_until + time_to_drain);
  for (; !draining_.empty() && draining_.front().first <= until; draining_.pop_front()) {
    Process& process = draining_.front().second;
    const auto found = slots_.find(process->number_);
    if (found == slots_.end()) continue;
    Slot& slot = found->second;
    Process& its = slot.now == process ? slot.now : slot.before;
    if (its != process) continue;  // it has made room for a later one
    its = nullptr;
    --size_;
    if (!slot.now && !slot.before) slots_.erase(found);
    departed.push_back(std::move(process));
  }
  return departed;
}

void ProcessRegistry::for_each(const std::function<void(ObservedProcess&)>& visit) const {
  for (const auto& [number, slot] : slots_)
    for (const Process& process : {slot.now, slot.before})
      if (process) visit(*process);
}

}  // namespace vitrine::observe
