#include "worker/used_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>

#include "base/file_descriptor.hpp"

namespace vitrine::worker {

UsedMemory used_memory(const char* path) {
  const FileDescriptor file(::open(path, O_RDONLY | O_CLOEXEC));
  char text[256];
  const ssize_t n = file ? ::read(file.get(), text, sizeof text) : -1;
  if (n <= 0) return {};
  std::uint64_t pages[2] = {};
  const char *at = text, *end = text + n;
  for (std::uint64_t& value : pages) {
    const auto [rest, error] = std::from_chars(at, end, value);
    if (error != std::errc() || rest == end) return {};
    at = rest + 1;
  }
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return {pages[0] * page, pages[1] * page};
}

UsedMemory used_memory_of(pid_t pid) {
  return used_memory(fmt::format("/proc/{}/statm", pid).c_str());
}

}  // namespace vitrine::worker
