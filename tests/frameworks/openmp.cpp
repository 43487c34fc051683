// OpenMP: tasks of several tenants, with tasks of their own; and a team that takes the labels of its
// primary thread.
#include <omp.h>

#include <memory>
#include <thread>
#include <vitrine/labels.hpp>

#include "stage.hpp"

namespace {

using namespace frameworks;

constexpr int threads = 4, tenants = 40, holders = 3;

void serve(Task& task, bool holds) {
  task.check();
  for (int i = 0; i < 5; ++i) {
    const labels::Scope scope{step, "nested"};
    for (int j = 0; j < 4; ++j) {
      auto nested = labels::bind([&task] {
        Task own(&task);
        own.check("nested");
        Task::block();
#pragma omp taskyield
        own.check("nested");
      });
#pragma omp task firstprivate(nested)
      nested();
    }
    // The thread works for other tenants while it waits.
#pragma omp taskwait
    task.check("nested");
  }
  if (holds) task.hold();
  task.stage().finished();
}

void tasks(Stage& stage) {
#pragma omp parallel num_threads(threads)
#pragma omp single
  for (int i = 0; i < tenants; ++i) {
    auto task = std::make_shared<Task>(stage, "tenant-" + std::to_string(i));
    const labels::Scope scope{tenant, task->who()};
    task->check();
    auto bound = labels::bind([task, i] { serve(*task, i < holders); });
#pragma omp task firstprivate(bound)
    bound();
  }
}

void team(Stage& stage) {
  const labels::Scope scope{tenant, "team"};
  const labels::Set set = labels::capture();
#pragma omp parallel num_threads(threads)
  {
    const labels::Attach attached(set);
    Task task(stage, "team");
    for (int round = 0; round < 10; ++round) {
#pragma omp for
      for (int i = 0; i < 16; ++i) task.check();
    }
  }
}

}  // namespace

int main() {
  Stage stage(tenants, holders);
  std::thread driver([&stage] {
    team(stage);
    tasks(stage);
  });
  stage.show();
  driver.join();
  return stage.result(true);
}
