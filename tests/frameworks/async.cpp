// The standard library: std::async, std::packaged_task, and a pool of threads.
#include <future>
#include <memory>
#include <vitrine/labels.hpp>

#include "pool.hpp"
#include "stage.hpp"

namespace {

using namespace frameworks;

constexpr int threads = 4, tenants = 40, holders = 3, rounds = 10;

/// Each round on whatever thread is free.
void serve(Pool& pool, std::shared_ptr<Task> task, bool holds, int left) {
  task->check(left == rounds ? "(none)" : "round");
  const labels::Scope scope{step, "round"};
  auto answer = std::async(std::launch::async, labels::bind([task] {
                             Task own(task.get());
                             own.check("round");
                             return shown(tenant);
                           }));
  task->check("round");
  task->stage().count_check(answer.get() == task->who());
  if (left > 0)
    return pool.post(
        labels::bind([&pool, task, holds, left] { serve(pool, task, holds, left - 1); }));
  // Without the step, as all that hold.
  std::packaged_task<void()> last(
      labels::bind(labels::Set::of({{tenant, task->who()}}), [task, holds] {
        if (holds) task->hold();
        task->check();
      }));
  last();
  task->check("round");
  task->stage().finished();
}

}  // namespace

int main() {
  Stage stage(tenants, holders);
  Pool pool(threads);
  for (int i = 0; i < tenants; ++i) {
    auto task = std::make_shared<Task>(stage, "tenant-" + std::to_string(i));
    const labels::Scope scope{tenant, task->who()};
    pool.post(labels::bind([&pool, task, i] { serve(pool, task, i < holders, rounds); }));
  }
  stage.show();
  return stage.result(true);
}
