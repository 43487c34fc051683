#include "base/standard_output.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

namespace vitrine {
namespace {

constexpr int max_wait_ms = 1000;

/// Whether it takes more, after a second at the latest.
bool takes_more() {
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&out, 1, max_wait_ms) == 1;
}

}  // namespace

StandardOutput& StandardOutput::instance() {
  static StandardOutput output;
  return output;
}

StandardOutput::StandardOutput() {
  max_waiting_ = ::isatty(STDOUT_FILENO) == 1 ? 0 : pipe_bytes;
}

bool StandardOutput::write(std::string_view text) {
  text_ += text;
  return text_.size() <= max_waiting_ || flush();
}

bool StandardOutput::flush() {
  std::string_view left = text_;
  while (!left.empty()) {
    // Of an interrupted command a write must not wait: a pipe that is ready has room for so much.
    const bool hurried = is_hurried();
    if (hurried && !takes_more()) break;
    const std::size_t most = hurried ? std::size_t{PIPE_BUF} : left.size();
    const ssize_t written = ::write(STDOUT_FILENO, left.data(), std::min(most, left.size()));
    if (written >= 0) {
      left.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      if (!takes_more() && is_hurried()) break;
    } else if (errno != EINTR) {
      error_ = errno;
      break;
    }
  }
  const bool all = left.empty();
  text_.clear();
  return all;
}

std::string StandardOutput::problem() const {
  return error_ != 0 ? std::strerror(error_) : "its reader takes nothing";
}

}  // namespace vitrine
