#include "bpf/side_by_side.hpp"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace vitrine::bpf {
namespace {

constexpr std::size_t most_threads = 64;  // they wait, and share no more than what they wait for

}  // namespace

void side_by_side(std::size_t count, const std::function<void(std::size_t)>& job) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) job(i);
  };
  std::vector<std::thread> others;
  others.reserve(most_threads);
  try {
    while (others.size() + 1 < std::min(count, most_threads)) others.emplace_back(work);
  } catch (const std::system_error&) {
    // There may be no more of them: then those that there are do it.
  }
  work();
  for (std::thread& other : others) other.join();
}

}  // namespace vitrine::bpf
