// WorkBudget: how much processor time one piece of work may take, in this thread and its children.
//
// Time by the clock on the wall proves little on a busy machine: an honest target
// would run out of it there. What waits for something else than a CPU has limits of its own
// (target::TimeoutBudget, sandbox::Worker).
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

namespace vitrine::sandbox {

/// Processor time that the calling thread has used, and the children that it started
/// (sandbox::Child), with those that have ended.
std::chrono::nanoseconds used_cpu_time();

class WorkBudget {
 public:
  using Time = std::chrono::nanoseconds;

  /// No limit of time. `stop`: when it becomes true, the budget is spent.
  explicit WorkBudget(const std::atomic<bool>* stop = nullptr) : stop_(stop) {}
  /// From now on, of the calling thread.
  explicit WorkBudget(Time time, const std::atomic<bool>* stop = nullptr)
      : stop_(stop), is_limited_(true), time_(time), begin_(used_cpu_time()) {}

  [[nodiscard]] bool is_limited() const { return is_limited_; }
  [[nodiscard]] bool stopped() const { return stop_ != nullptr && stop_->load(); }
  [[nodiscard]] bool spent() const { return stopped() || (is_limited_ && used() >= time_); }
  [[nodiscard]] Time used() const { return used_cpu_time() - begin_; }
  [[nodiscard]] Time left() const { return std::max(time_ - used(), Time(0)); }

 private:
  const std::atomic<bool>* stop_;
  bool is_limited_ = false;
  Time time_{0};
  Time begin_{0};
};

}  // namespace vitrine::sandbox
