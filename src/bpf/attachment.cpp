#include "bpf/attachment.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/signals.hpp"
#include "bpf/tracer.hpp"

namespace vitrine::bpf {
namespace {

constexpr std::size_t max_threads = 64;  // they wait, and share no more than what they wait for

}  // namespace

void parallel_for(std::size_t count, const std::function<void(std::size_t)>& job) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) job(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::array<std::thread, max_threads> others;
  try {
    const SignalsBlocked blocked;  // signals are for the other threads
    for (std::size_t i = 1; i < std::min(count, max_threads); ++i) others[i] = std::thread(work);
  } catch (const std::exception&) {
    // No more threads, or no memory for one: then those that there are do it.
  }
  work();
  for (std::thread& other : others)
    if (other.joinable()) other.join();
  if (failure) std::rethrow_exception(failure);
}

Attachment& Attachment::operator=(Attachment&& other) noexcept {
  if (this == &other) return *this;
  detach();
  links = std::exchange(other.links, {});
  failures = std::exchange(other.failures, {});
  return *this;
}

void Attachment::add(Attachment other) {
  links.insert(links.end(), other.links.begin(), other.links.end());
  other.links.clear();
  failures.insert(failures.end(), std::make_move_iterator(other.failures.begin()),
                  std::make_move_iterator(other.failures.end()));
}

void Attachment::detach() {
  parallel_for(links.size(), [&](std::size_t i) { ::close(links[i]); });
  links.clear();
}

Result<Attachment> Tracer::attach(int file, std::span<const AttachSite> sites,
                                  std::optional<pid_t> pid) {
  const FileSites one{file, "the file", sites};
  return attach(std::span(&one, 1), pid);
}

}  // namespace vitrine::bpf
