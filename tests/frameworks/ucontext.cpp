// Fibers made with ucontext, with a small scheduler: each runs until it yields, and any thread goes
// on with it.
#include <ucontext.h>

#include <deque>
#include <memory>
#include <thread>
#include <vector>
#include <vitrine/fiber.hpp>

#include "stage.hpp"

namespace {

using namespace frameworks;

constexpr int threads = 4, fibers = 40, holders = 3;

class Scheduler;

struct Fiber {
  Fiber(Scheduler& on, Stage& stage, std::string who, bool stays)
      : scheduler(on), task(stage, std::move(who)), holds(stays) {}

  Scheduler& scheduler;
  Task task;
  bool holds;
  bool done = false;
  ucontext_t context{};
  ucontext_t* resumer = nullptr;
  std::unique_ptr<char[]> stack = std::make_unique<char[]>(64 * 1024);
  labels::FiberLabels labels{};

  // Both ends of a switch are functions of their own, as with VITRINE_FIBERS those of vitrine.
  [[gnu::noinline]] void resume() {
    ucontext_t here{};
    resumer = &here;
    labels.run([&] { swapcontext(&here, &context); });
  }
  [[gnu::noinline]] void yield() { swapcontext(&context, resumer); }
  /// The fiber itself leaves and enters, around what is not done for its tenant.
  void rest() {
    labels.leave();
    if (shown(tenant) != "(none)") std::exit(1);
    std::this_thread::yield();
    labels.enter();
  }
};

class Scheduler {
 public:
  void add(Fiber& fiber) {
    const std::lock_guard lock(mutex_);
    ready_.push_back(&fiber);
    changed_.notify_one();
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopping_ || !ready_.empty(); });
      if (ready_.empty()) return;
      Fiber* fiber = ready_.front();
      ready_.pop_front();
      lock.unlock();
      fiber->resume();
      if (!fiber->done) add(*fiber);
      lock.lock();
    }
  }

 private:
  std::mutex mutex_{};
  std::condition_variable changed_{};
  std::deque<Fiber*> ready_{};
  bool stopping_ = false;
};

void serve(Fiber& fiber) {
  Task& task = fiber.task;
  for (int i = 0; i < 50; ++i) {
    task.check();
    const labels::Scope scope{step, "yield"};
    fiber.yield();
    task.check("yield");
    {
      const labels::Scope inner{step, "rest"};
      fiber.rest();
      fiber.yield();
      task.check("rest");
    }
    task.check("yield");
  }
  if (fiber.holds) task.hold();
  fiber.yield();
  task.check();
}

/// makecontext passes ints.
void body(unsigned high, unsigned low) {
  const auto address = (static_cast<std::uintptr_t>(high) << 32) | low;
  Fiber& fiber = *reinterpret_cast<Fiber*>(address);
  serve(fiber);
  fiber.done = true;
  fiber.task.stage().finished();
  fiber.yield();
}

void prepare(Fiber& fiber) {
  getcontext(&fiber.context);
  fiber.context.uc_stack = {fiber.stack.get(), 0, 64 * 1024};
  const auto address = reinterpret_cast<std::uintptr_t>(&fiber);
  makecontext(&fiber.context, reinterpret_cast<void (*)()>(body), 2,
              static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
}

}  // namespace

int main() {
  Stage stage(fibers, holders);
  Scheduler scheduler;
  std::vector<std::unique_ptr<Fiber>> all;
  for (int i = 0; i < fibers; ++i) {
    const std::string who = "tenant-" + std::to_string(i);
    const labels::Scope scope{tenant, who};
    auto fiber = std::make_unique<Fiber>(scheduler, stage, who, i < holders);
    prepare(*fiber);
    scheduler.add(*fiber);
    all.push_back(std::move(fiber));
  }
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i) workers.emplace_back([&] { scheduler.work(); });
  stage.show();
  scheduler.stop();
  for (std::thread& worker : workers) worker.join();
  return stage.result(true);
}
