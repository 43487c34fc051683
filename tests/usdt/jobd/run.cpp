#include "job.hpp"

namespace jobd {
namespace {

template <class Combine>
long fold(unsigned id, const char* name, long amount, long start, Combine combine) {
  SAY("jobd:job-start", "%u,\"%s\",%ld", id, name, amount);
  JOBD_JOB_START(id, name, amount);
  for (long i = 1; i <= amount; ++i) start = combine(start, i);
  return start;
}

}  // namespace

long run(const Job& job) {
  const auto sum = [](long a, long b) { return a + b; };
  const auto product = [](long a, long b) { return a * b % 1000003; };
  return job.work == "sum" ? fold(job.id, "sum", job.amount, 0, sum)
                           : fold(job.id, "product", job.amount, 1, product);
}

}  // namespace jobd
