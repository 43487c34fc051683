#pragma once

#include <string>

#include "queue.hpp"

namespace jobd {

struct Job {
  unsigned id;
  std::string tenant;
  std::string work;  ///< "sum", "product"
  long amount;
};

/// What a job comes to.
long run(const Job& job);

/// Runs what it takes from the queue until that is closed, with the job's tenant as a label.
void work(Queue<Job>& queue, int worker);

}  // namespace jobd
