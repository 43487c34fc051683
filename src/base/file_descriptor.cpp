#include "base/file_descriptor.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

namespace vitrine {
namespace {

std::optional<rlimit> limit_before;  // nothing: it was not changed

}  // namespace

tl::expected<std::string, int> read_all(int file, std::size_t most, const std::atomic<bool>* stop) {
  constexpr std::size_t first = 4096;  // most files of /proc have less
  std::string text;
  while (text.size() < most) {
    const std::size_t have = text.size();
    text.resize(std::min(most, have + std::max(first, have)));
    const ssize_t got = ::read(file, text.data() + have, text.size() - have);
    const int error = errno;
    text.resize(have + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) break;
    const bool goes_on = got > 0 || (error == EINTR && (stop == nullptr || !*stop));
    if (!goes_on) return tl::unexpected(error);
  }
  return text;
}

int write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlimit before = limit;
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) == 0 && !limit_before) limit_before = before;
}

void restore_file_limit() {
  if (limit_before) ::setrlimit(RLIMIT_NOFILE, &*limit_before);
}

}  // namespace vitrine
