// jobd: runs jobs on threads. Reads one job a line from its input: TENANT WORK AMOUNT.
#include <iostream>
#include <thread>
#include <vector>

#include "job.hpp"

int main() {
  jobd::Queue<jobd::Job> queue;
  std::vector<std::thread> workers;
  for (int worker = 0; worker < 3; ++worker)
    workers.emplace_back([&queue, worker] { jobd::work(queue, worker); });
  jobd::Job job{0, "", "", 0};
  while (std::cin >> job.tenant >> job.work >> job.amount) {
    ++job.id;
    queue.put(job);
  }
  queue.close();
  for (std::thread& worker : workers) worker.join();
}
