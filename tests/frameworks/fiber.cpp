// Boost.Fiber: fibers that yield, sleep, lock and wait for futures, under each scheduling algorithm.
#include <barrier>
#include <boost/fiber/all.hpp>
#include <memory>
#include <thread>
#include <vector>
#include <vitrine/boost_fiber.hpp>

#include "stage.hpp"

namespace {

using namespace frameworks;
namespace fibers = boost::fibers;

constexpr int threads = 4, tenants = 32, holders = 3;
constexpr int others = 12;  // of the threads that do not pause

fibers::mutex shared_mutex;

void steps(Task& task) {
  for (int i = 0; i < 5; ++i) {
    const labels::Scope scope{step, "yield"};
    Task::block();
    boost::this_fiber::yield();
    task.check("yield");
    {
      const labels::Scope inner{step, "sleep"};
      boost::this_fiber::sleep_for(std::chrono::microseconds(100));
      task.check("sleep");
    }
    {
      const std::lock_guard lock(shared_mutex);
      boost::this_fiber::yield();
      task.check("yield");
    }
    // Fibers of its own, which have the labels in force where they start.
    for (const auto launch : {fibers::launch::post, fibers::launch::dispatch}) {
      const labels::Scope inner{step, "child"};
      auto child = fibers::async(launch, [&task] {
        Task its(&task);
        its.check("child");
        boost::this_fiber::yield();
        its.check("child");
        const labels::Scope deeper{step, "deeper"};
        boost::this_fiber::yield();
        its.check("deeper");
      });
      task.check("child");
      child.get();
      task.check("child");
    }
    task.check("yield");
  }
}

void serve(Stage& stage, const std::string& who, bool holds) {
  const labels::Scope scope{tenant, who};
  Task task(stage, who);
  steps(task);
  if (holds) {
    // A thread that holds wakes no sleepers: none may be left. Ready ones are stolen from it.
    while (!stage.only_holders_are_left()) boost::this_fiber::yield();
    task.hold();
  }
  steps(task);
  stage.finished();
}

/// Several threads, each with fibers of its own until another takes them.
template <class Algorithm, class... Args>
std::vector<std::thread> start(Stage& stage, fibers::barrier& until_done, int count, int holding,
                               const std::string& prefix, Args... args) {
  auto all_there = std::make_shared<std::barrier<>>(threads);
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i)
    workers.emplace_back([&stage, &until_done, all_there, count, holding, prefix, args..., i] {
      fibers::use_scheduling_algorithm<labels::LabelledFibers<Algorithm>>(args...);
      all_there->arrive_and_wait();  // an algorithm steals from threads that are there
      // In force while the thread's main fiber runs, and not while it waits.
      const labels::Scope scope{tenant, "the main fiber"};
      Task main(stage, "the main fiber");
      for (int j = i; j < count; j += threads)
        fibers::fiber(serve, std::ref(stage), prefix + std::to_string(j), j < holding).detach();
      main.check();
      until_done.wait();
      main.check();
    });
  return workers;
}

void join(std::vector<std::thread>& workers) {
  for (std::thread& worker : workers) worker.join();
}

/// One thread: fibers of each launch policy beside the main fiber.
void round_robin(Stage& stage) {
  fibers::use_scheduling_algorithm<labels::LabelledFibers<fibers::algo::round_robin>>();
  const labels::Scope scope{tenant, "main"};
  Task main(stage, "main");
  std::vector<fibers::fiber> all;
  for (int i = 0; i < 6; ++i) {
    const auto launch = i % 2 == 0 ? fibers::launch::dispatch : fibers::launch::post;
    all.emplace_back(launch, [&stage, i] {
      Task inherited(stage, "main");
      inherited.check();
      const std::string who = "round-robin-" + std::to_string(i);
      const labels::Scope mine{tenant, who};
      Task task(stage, who);
      steps(task);
    });
    main.check();
  }
  for (fibers::fiber& fiber : all) {
    fiber.join();
    main.check();
  }
}

}  // namespace

int main() {
  Stage stage(tenants + others, holders);
  std::thread(round_robin, std::ref(stage)).join();

  fibers::barrier others_done(threads + 1);
  auto workers = start<fibers::algo::shared_work>(stage, others_done, others, 0, "shared-");
  stage.wait_for(others);
  others_done.wait();
  join(workers);

  fibers::barrier until_done(threads + 1);
  workers = start<fibers::algo::work_stealing>(stage, until_done, tenants, holders, "tenant-",
                                               static_cast<std::uint32_t>(threads));
  stage.show();
  until_done.wait();
  join(workers);
  return stage.result(true);
}
