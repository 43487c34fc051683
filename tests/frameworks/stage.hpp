// What the programs of this folder have in common: tasks that check their labels from inside, and
// the moment at which some of them hold their threads so that read.py can look from outside.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vitrine/labels.hpp>

namespace frameworks {

namespace labels = vitrine::labels;

inline const labels::Key tenant{"tenant"}, step{"step"};

class Stage {
 public:
  /// All `tasks` of the program call finished(); `holders` of them call hold() before.
  Stage(int tasks, int holders) : tasks_(tasks), holders_(holders) {}

  /// Blocks this thread, which works for `who`, until the reader has looked.
  void hold(std::string_view who) {
    std::unique_lock lock(mutex_);
    works_for_[gettid()] = who;
    changed_.notify_all();
    changed_.wait(lock, [this] { return released_; });
  }

  void finished() {
    const std::lock_guard lock(mutex_);
    ++finished_;
    changed_.notify_all();
  }

  /// Whether no task is left that does not hold, or is about to.
  bool only_holders_are_left() {
    const std::lock_guard lock(mutex_);
    return finished_ >= tasks_ - holders_;
  }

  void wait_for(int finished) {
    std::unique_lock lock(mutex_);
    wait(lock, finished, 0);
  }

  /// Of the main thread: waits until only holders are left, prints which thread works for whom, and
  /// goes on when a line arrives. Then waits for the holders to finish.
  void show() {
    std::unique_lock lock(mutex_);
    wait(lock, tasks_ - holders_, static_cast<std::size_t>(holders_));
    std::string line = "{";
    for (const auto& [thread, who] : works_for_)
      line += (line.size() > 1 ? ", \"" : "\"") + std::to_string(thread) + "\": \"" + who + '"';
    std::puts((line + '}').c_str());
    std::fflush(stdout);
    while (std::getchar() != '\n')
      if (std::feof(stdin)) std::exit(1);
    released_ = true;
    changed_.notify_all();
    wait(lock, tasks_, works_for_.size());
  }

  /// The program's exit code: every check has succeeded, and tasks have moved between threads if
  /// they should.
  int result(bool must_move) {
    std::printf("%d checks, %d failed, %d moves between threads\n", checks_.load(),
                failures_.load(), moves_.load());
    return checks_ > 0 && failures_ == 0 && (moves_ > 0 || !must_move) ? 0 : 1;
  }

  void count_check(bool ok) {
    ++checks_;
    if (!ok) ++failures_;
  }
  int failures() const { return failures_; }
  void count_move() { ++moves_; }

 private:
  void wait(std::unique_lock<std::mutex>& lock, int finished, std::size_t holding) {
    if (changed_.wait_for(lock, std::chrono::seconds(20),
                          [&] { return finished_ >= finished && works_for_.size() >= holding; }))
      return;
    std::fprintf(stderr, "%d of %d tasks finished, %zu of %zu threads hold\n", finished_, finished,
                 works_for_.size(), holding);
    std::_Exit(1);
  }

  const int tasks_, holders_;
  std::mutex mutex_{};
  std::condition_variable changed_{};
  std::map<pid_t, std::string> works_for_{};
  int finished_ = 0;
  bool released_ = false;
  std::atomic<int> checks_{0}, failures_{0}, moves_{0};
};

inline std::string shown(labels::Key key) {
  return std::string(labels::get(key).value_or("(none)"));
}

/// What one task of a tenant expects, wherever it runs.
class Task {
 public:
  Task(Stage& stage, std::string who) : stage_(stage), who_(std::move(who)) {}
  /// A part of another, wherever it runs.
  explicit Task(const Task* whole)
      : stage_(whole->stage_), who_(whole->who_), thread_(whole->thread_) {}
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  /// After each suspension: these labels and no others.
  void check(std::string_view expected_step = "(none)") {
    const std::string of = shown(tenant), at = shown(step);
    const bool ok = of == who_ && at == expected_step;
    if (!ok && stage_.failures() < 10)
      std::fprintf(stderr, "%s/%.*s has the labels %s/%s\n", who_.c_str(),
                   static_cast<int>(expected_step.size()), expected_step.data(), of.c_str(),
                   at.c_str());
    stage_.count_check(ok);
    const pid_t now = gettid();
    if (thread_ != 0 && thread_ != now) stage_.count_move();
    thread_ = now;
  }
  void hold() {
    check();
    stage_.hold(who_);
    check();
  }
  /// Blocks its thread for a while, so that others get to run what waits.
  static void block() { std::this_thread::sleep_for(std::chrono::microseconds(100)); }
  Stage& stage() { return stage_; }
  const std::string& who() const { return who_; }

 private:
  Stage& stage_;
  const std::string who_;
  pid_t thread_ = 0;
};

}  // namespace frameworks
