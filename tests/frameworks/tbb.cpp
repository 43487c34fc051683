// oneTBB: tasks, nested tasks and parallel_for.
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <functional>
#include <memory>
#include <thread>
#include <vitrine/labels.hpp>

#include "stage.hpp"

namespace {

using namespace frameworks;

constexpr int threads = 4, tenants = 40, holders = 3;

/// While it waits for its own tasks, a thread works for other tenants.
void nested(Task& task) {
  const labels::Scope scope{step, "nested"};
  tbb::task_group group;
  for (int i = 0; i < 4; ++i)
    group.run(labels::bind([&task] {
      Task own(&task);
      own.check("nested");
      Task::block();
    }));
  group.wait();
  task.check("nested");
  tbb::parallel_for(0, 20, labels::bind([&task](int) {
                      Task own(&task);
                      own.check("nested");
                    }));
  task.check("nested");
}

void serve(Task& task, bool holds) {
  task.check();
  if (holds) task.hold();
  for (int i = 0; i < 5; ++i) {
    nested(task);
    task.check();
  }
  task.stage().finished();
}

void run(Stage& stage) {
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads + 1);
  tbb::task_arena arena(threads);
  tbb::task_group group;
  for (int i = 0; i < tenants; ++i) {
    // One that holds blocks the tenants whose thread took it while it waited: last, therefore.
    const bool holds = i >= tenants - holders;
    if (holds) stage.wait_for(tenants - holders);
    auto task = std::make_shared<Task>(stage, "tenant-" + std::to_string(i));
    const labels::Scope scope{tenant, task->who()};
    task->check();
    arena.execute([&] { group.run(labels::bind([task, holds] { serve(*task, holds); })); });
  }
  arena.execute([&group] { group.wait(); });
}

}  // namespace

int main() {
  Stage stage(tenants, holders);
  std::thread driver(run, std::ref(stage));
  stage.show();
  driver.join();
  return stage.result(true);
}
