#include "cli/line_output.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string_view>

#include "cli/interrupt.hpp"

namespace vitrine::cli {
namespace {

constexpr int patience_ms = 1000;

bool takes_more() {
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&out, 1, patience_ms) == 1;
}

}  // namespace

bool LineOutput::flush() {
  std::string_view left = text_;
  while (!left.empty()) {
    // Of an interrupted command a write must not wait: a pipe that is ready has room for so much.
    const bool hurried = interrupted();
    if (hurried && !takes_more()) break;
    const std::size_t most = hurried ? std::size_t{PIPE_BUF} : left.size();
    const ssize_t written = ::write(STDOUT_FILENO, left.data(), std::min(most, left.size()));
    if (written >= 0)
      left.remove_prefix(static_cast<std::size_t>(written));
    else if (errno == EAGAIN ? !takes_more() : errno != EINTR)
      break;
  }
  const bool all = left.empty();
  text_.clear();
  return all;
}

}  // namespace vitrine::cli
