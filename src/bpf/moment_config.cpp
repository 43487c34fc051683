#include "bpf/moment_config.hpp"

#include <sys/random.h>
#include <unistd.h>

#include "bpf/thread_iterator.hpp"

namespace vitrine::bpf {

Result<vitrine_moment_config> moment_config(std::size_t ring_bytes, std::uint32_t epoch) {
  const auto self = TRY(kernel_view_of(::getpid()));
  vitrine_moment_config config{};
  if (::getrandom(&config.hash_key, sizeof config.hash_key, 0) != sizeof config.hash_key)
    return fail(ErrorCode::failed, "the kernel returned no random numbers");
  config.pid_level = self.pid_level;
  config.epoch = epoch;
  config.wake_bytes = ring_bytes / 4;
  return config;
}

}  // namespace vitrine::bpf
