#include "export/exporter.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

#include "base/gzip.hpp"
#include "base/limits.hpp"
#include "base/notes.hpp"
#include "export/endpoint.hpp"
#include "export/http.hpp"
#include "export/spool.hpp"
#include "export/trouble.hpp"

namespace vitrine::exporter {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t spool_on_disk = 256U << 20;

/// Requests that are written to the disk together.
constexpr std::size_t taken_in_at_once = 64;

/// Until other threads may have freed some.
constexpr std::chrono::milliseconds pause_without_memory{50};

class ThreadedExporter final : public Exporter {
 public:
  ThreadedExporter(Endpoint endpoint, std::unique_ptr<Post> post, Spool spool,
                   const ExportOptions& options)
      : endpoint_(std::move(endpoint)),
        signal_(options.signal),
        max_incoming_(options.spool_bytes),
        post_(std::move(post)),
        spool_(std::move(spool)),
        split_(options.split),
        backoff_(options.first_retry, options.last_retry, std::random_device()()) {
    if (!spool_.empty())
      notes_.add(fmt::format("{} requests of an earlier run are sent first", spool_.size()));
    count_spool();
  }

  /// Errors: failed.
  Result<void> start(std::function<void()> begin) try {
    thread_ = std::thread([this, begin = std::move(begin)] {
      if (begin) begin();
      run();
    });
    pthread_setname_np(thread_.native_handle(), "export");
    return {};
  } catch (const std::system_error&) {
    return fail(ErrorCode::failed, "no thread can be started for sending",
                "allow more processes (RLIMIT_NPROC, pids.max)");
  }

  ~ThreadedExporter() override { stop(); }

  void stop() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    post_->wake();
    if (thread_.joinable()) thread_.join();
  }

  void send(std::string request) override {
    {
      const std::lock_guard lock(mutex_);
      if (request.size() > limits::export_request) {
        ++counters_.refused;
        notes_.add(
            fmt::format("a request of {} bytes exceeds the limit of collectors and was dropped",
                        request.size()));
        return;
      }
      incoming_bytes_ += request.size();
      incoming_.push_back(std::move(request));
      while (incoming_bytes_ > max_incoming_ && incoming_.size() > 1) {
        incoming_bytes_ -= incoming_.front().size();
        incoming_.pop_front();
        ++overflowed_incoming_;
      }
    }
    post_->wake();
  }

  void finish(std::chrono::milliseconds deadline) override {
    std::unique_lock lock(mutex_);
    hurry_ = finishing_ = true;
    post_->wake();
    changed_.wait_for(lock, deadline,
                      [this] { return counters_.waiting == 0 && nothing_incoming(); });
    // What is to outlive us must be in the spool; that takes no longer than writing it.
    changed_.wait(lock, [this] { return nothing_incoming(); });
  }

  [[nodiscard]] ExportCounters counters() const override {
    const std::lock_guard lock(mutex_);
    ExportCounters counters = counters_;
    counters.overflowed += overflowed_incoming_;
    counters.waiting += incoming_.size() + (taking_in_ ? 1 : 0);
    return counters;
  }

  std::vector<std::string> take_notes() override {
    const std::lock_guard lock(mutex_);
    if (const auto left_out = trouble_.take_left_out(Clock::now(), finishing_); left_out != 0)
      notes_.add(fmt::format("{}: {} more failures, which came and went, are not listed",
                             endpoint_.name, left_out));
    auto notes = notes_.take();
    if (const auto more = notes_.take_excess(); more != 0)
      notes.push_back(fmt::format("and {} more notes about sending", more));
    return notes;
  }

 private:
  [[nodiscard]] bool nothing_incoming() const {
    return incoming_.empty() && !taking_in_ && held_ == 0;
  }

  void run() {
    // Signals are for the thread that works on what is sent.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    for (;;) {
      try {
        if (!take_in()) return;
        if (!post_->busy()) begin();
        publish();
        if (auto response = post_->wait(pause())) conclude(*response);
      } catch (const std::bad_alloc&) {
        go_on_without_memory();
      }
    }
  }

  /// What was to be sent next stays in the spool, and is tried again. Allocates nothing.
  void go_on_without_memory() {
    {
      const std::lock_guard lock(mutex_);
      if (taking_in_) ++counters_.refused;  // it is in no spool
      taking_in_ = false;
      changed_.notify_all();
    }
    std::this_thread::sleep_for(pause_without_memory);
  }

  /// Moves what was handed over into the spool. False: it is time to end.
  bool take_in() {
    while (true) {
      std::unique_lock lock(mutex_);
      if (std::exchange(hurry_, false) && !asked_to_wait_) next_try_ = Clock::now();
      // At the end, also what the disk did not take before.
      const bool is_last = stopping_ && incoming_.empty() && spool_.unwritten() != 0;
      if (is_last || (held_ != 0 && (incoming_.empty() || held_ >= taken_in_at_once))) {
        lock.unlock();
        spool_.write_out(post_->busy());
        lock.lock();
        held_ = 0;
        count_spool();
      }
      if (incoming_.empty()) return !stopping_;
      const std::string request = std::move(incoming_.front());
      incoming_.pop_front();
      incoming_bytes_ -= request.size();
      taking_in_ = true;
      lock.unlock();
      auto compressed = gzip(request);
      if (compressed) spool_.hold(std::move(*compressed), post_->busy());
      lock.lock();
      taking_in_ = false;
      if (compressed) {
        ++held_;
      } else {
        ++counters_.refused;
        notes_.add(compressed.error().message);
      }
      count_spool();
    }
  }

  void begin() {
    if (Clock::now() < next_try_) return;
    if (auto request = spool_.first()) post_->start(std::move(*request));
  }

  /// How long nothing will happen by itself.
  [[nodiscard]] std::chrono::milliseconds pause() const {
    constexpr std::chrono::milliseconds long_enough{60'000};  // wake() ends it
    if (post_->busy() || spool_.empty()) return long_enough;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_try_ - Clock::now());
    return std::clamp(left, std::chrono::milliseconds(0), long_enough);
  }

  /// What becomes of a request.
  enum class Outcome : std::uint8_t { taken, retried, split, refused };

  void conclude(const Response& response) {
    const Judgement judgement = judge(response);
    next_try_ = Clock::now();
    asked_to_wait_ = false;
    const Outcome outcome = decide(judgement);
    if (outcome == Outcome::split) {
      // Another request is next, which may be small enough.
    } else if (judgement.verdict == Verdict::later) {
      next_try_ += backoff_.next(response.retry_after);
      asked_to_wait_ = response.retry_after.has_value();
    } else {
      backoff_.reset();
    }
    const std::lock_guard lock(mutex_);
    count(outcome, judgement);
    report(outcome, judgement.note);
    count_spool();
  }

  /// Takes it out of the spool, or to another place in it.
  Outcome decide(const Judgement& judgement) {
    if (judgement.verdict == Verdict::taken) {
      spool_.remove_first();
      return Outcome::taken;
    }
    const unsigned tries = judgement.received ? spool_.count_try() : 0;
    const bool refused = judgement.verdict == Verdict::refused;
    if (judgement.too_much && (refused || tries > 1) && split_first()) return Outcome::split;
    if (refused || (judgement.doubtful && tries >= limits::export_tries)) {
      spool_.remove_first();
      return Outcome::refused;
    }
    if (tries > 1) spool_.defer_first();
    return Outcome::retried;
  }

  /// Puts the first request behind all others, as smaller ones. False: it stays as it is.
  bool split_first() {
    if (!split_) return false;
    const auto packed = spool_.first();
    const auto request = packed ? gunzip(*packed, limits::export_request) : Result<std::string>();
    if (!request || request->size() <= limits::export_smallest) return false;
    std::vector<std::string> parts;
    for (const std::string& part : split_(*request))
      if (auto compressed = gzip(part)) parts.push_back(std::move(*compressed));
    if (parts.size() < 2) return false;
    spool_.replace_first(std::move(parts));
    return true;
  }

  /// With the lock.
  void count(Outcome outcome, const Judgement& judgement) {
    switch (outcome) {
      case Outcome::taken:
        ++counters_.sent;
        counters_.rejected += judgement.rejected;
        break;
      case Outcome::retried:
        ++counters_.retried;
        break;
      case Outcome::split:
        ++counters_.split;
        break;
      case Outcome::refused:
        ++counters_.refused;
        break;
    }
  }

  /// With the lock. An end is reported where the failure was.
  void report(Outcome outcome, const std::string& text) {
    const bool recovered = outcome == Outcome::taken && failing_;
    failing_ = outcome == Outcome::retried;
    if (outcome == Outcome::split && !std::exchange(reported_split_, true))
      notes_.add(fmt::format("{}: {}; requests that it refuses for their size are split",
                             endpoint_.name, text));
    if (outcome == Outcome::split) return;
    if (recovered && std::exchange(reported_failure_, false))
      notes_.add(fmt::format("{} accepts {} again", endpoint_.name, names_of(signal_).name));
    if (trouble_.add(text, Clock::now())) {
      reported_failure_ = reported_failure_ || failing_;
      // Others may send there, too, and meet the same.
      const std::string_view name = names_of(signal_).name;
      const std::string consequence = outcome == Outcome::taken ? ""
                                      : outcome == Outcome::retried
                                          ? fmt::format("; retrying {}", name)
                                          : fmt::format("; the request was dropped ({})", name);
      notes_.add(fmt::format("{}: {}{}", endpoint_.name, text, consequence));
    }
  }

  void publish() {
    const std::lock_guard lock(mutex_);
    count_spool();
  }

  /// With the lock.
  void count_spool() {
    counters_.overflowed = spool_.overflowed();
    counters_.skipped = spool_.skipped();
    counters_.waiting = spool_.size();
    counters_.unwritten = spool_.unwritten();
    counters_.waiting_bytes = spool_.bytes();
    counters_.oldest_ns = spool_.oldest_ns();
    for (std::string& text : spool_.take_notes()) notes_.add(std::move(text));
    changed_.notify_all();
  }

  const Endpoint endpoint_;
  const Signal signal_;
  const std::uint64_t max_incoming_;

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<std::string> incoming_;
  std::uint64_t incoming_bytes_ = 0, overflowed_incoming_ = 0;
  bool taking_in_ = false;  ///< one request is neither there nor in the spool
  std::size_t held_ = 0;    ///< the spool has them, and has not tried to write them
  bool hurry_ = false, finishing_ = false, stopping_ = false;
  ExportCounters counters_;
  Trouble trouble_;
  Notes notes_{limits::export_notes, Notes::Repeats::kept};

  // Of the thread alone, but for Post::wake().
  std::unique_ptr<Post> post_;
  Spool spool_;
  const std::function<std::vector<std::string>(std::string_view)> split_;
  Backoff backoff_;
  Clock::time_point next_try_;
  bool asked_to_wait_ = false, failing_ = false, reported_failure_ = false, reported_split_ = false;
  std::thread thread_;
};

}  // namespace

Result<void> Exporter::check(const ExportOptions& options) {
  TRY(Post::open(TRY(parse_endpoint(options.url, options.url_is_whole, options.signal)), options));
  return {};
}

Result<std::unique_ptr<Exporter>> Exporter::open(ExportOptions options) {
  auto endpoint = TRY(parse_endpoint(options.url, options.url_is_whole, options.signal));
  if (options.spool_bytes == 0)
    options.spool_bytes = options.spool.empty() ? Spool::max_in_memory : spool_on_disk;
  auto post = TRY(Post::open(endpoint, options));
  auto spool = TRY(Spool::open(options.spool, options.spool_bytes,
                               endpoint.protocol == Protocol::clickhouse
                                   ? Spool::row_files
                                   : names_of(options.signal).spool_end));
  auto exporter = std::make_unique<ThreadedExporter>(std::move(endpoint), std::move(post),
                                                     std::move(spool), options);
  TRY(exporter->start(std::move(options.begin_thread)));
  return exporter;
}

}  // namespace vitrine::exporter
