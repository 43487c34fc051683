#include <vitrine/labels.hpp>

#include "job.hpp"
#include "log.hpp"

namespace jobd {
namespace {

const vitrine::labels::Key tenant("tenant");

void finish(const Job& job, long result) {
  SAY("jobd:job-done", "%u,%ld", job.id, result);
  JOBD_JOB_DONE(job.id, result);
  log_line(job.work.c_str());
}

}  // namespace

void work(Queue<Job>& queue, int worker) {
  while (const auto job = queue.take()) {
    const vitrine::labels::Scope scope(tenant, job->tenant);
    said_tenant = job->tenant.c_str();
    finish(*job, run(*job));
    said_tenant = "";
  }
  SAY("jobd:worker-idle", "%d", worker);
  JOBD_WORKER_IDLE(worker);
}

}  // namespace jobd
