#include "cli/live_text.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace vitrine::cli {

TerminalSize terminal_size() {
  winsize size{};
  TerminalSize out;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return out;
  if (size.ws_col > 0) out.columns = size.ws_col;
  if (size.ws_row > 0) out.lines = size.ws_row;
  return out;
}

bool LiveText::show(std::string_view text) {
  const std::size_t most = std::max<std::size_t>(terminal_size().lines, 3) - 1;
  std::size_t end = 0;
  for (std::size_t line = 0; line < most && end < text.size(); ++line)
    end = std::min(text.find('\n', end), text.size() - 1) + 1;
  return replace(text.substr(0, end));
}

bool LiveText::finish(std::string_view text) {
  const bool shown = replace(text);
  lines_ = 0;
  return shown;
}

bool LiveText::replace(std::string_view text) {
  // Up to the first line shown, clear from there to the end of the screen; at once, so that it does
  // not flicker.
  std::string out = lines_ > 0 ? fmt::format("\x1b[{}A\r\x1b[J", lines_) : std::string();
  out += text;
  lines_ = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  return std::fwrite(out.data(), 1, out.size(), stdout) == out.size() && std::fflush(stdout) == 0;
}

}  // namespace vitrine::cli
