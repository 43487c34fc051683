#include "cli/output/live.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>

#include "base/standard_output.hpp"
#include "cli/output/text.hpp"

namespace vitrine::cli {
namespace {

std::atomic<bool> flag{false}, stop_flag{false};
std::atomic<int> first_signal{0};
std::atomic<std::int64_t> first_ns{0};
static_assert(std::atomic<bool>::is_always_lock_free &&
                  std::atomic<std::int64_t>::is_always_lock_free,
              "set in a signal handler");
std::atomic<unsigned> seconds_to_end{0};  // 0: it may take as long as it takes

// One request to end may come as several signals: `timeout` sends its signal to the command and to
// the command's group, systemd sends SIGHUP after SIGTERM (SendSIGHUP=).
constexpr std::int64_t one_request_ns = 500'000'000;

void interrupt(int number) {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  const std::int64_t now = time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
  std::int64_t first = 0;
  if (first_ns.compare_exchange_strong(first, now)) {
    first_signal = number;
    flag = stop_flag = true;
    if (const unsigned seconds = seconds_to_end) ::alarm(seconds);
  } else if (now - first > one_request_ns) {
    std::signal(number, SIG_DFL);
    ::raise(number);
  }
}

}  // namespace

const std::atomic<bool>& interrupted() {
  return flag;
}

bool is_terminated() {
  return first_signal == SIGTERM;
}

const std::atomic<bool>& stopped() {
  return stop_flag;
}

void stop_after(std::chrono::milliseconds time) {
  struct sigaction action {};
  action.sa_handler = [](int) { stop_flag = true; };
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const itimerval timer{{0, 0}, {seconds.count(), (time - seconds).count() * 1000}};
  if (time.count() <= 0 || ::setitimer(ITIMER_REAL, &timer, nullptr) != 0) stop_flag = true;
}

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = interrupt;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  StandardOutput::instance().set_hurried([] { return interrupted().load(); });
}

void end_within(std::chrono::seconds time) {
  struct sigaction action {};
  action.sa_handler = [](int) {
    constexpr std::string_view text =
        "vitrine: the end takes too long: what is not sent is lost, or stays in the spool\n";
    pollfd out{STDERR_FILENO, POLLOUT, 0};  // it may be what is stuck
    if (::poll(&out, 1, 0) == 1) (void)!::write(STDERR_FILENO, text.data(), text.size());
    ::_exit(EXIT_FAILURE);
  };
  sigaction(SIGALRM, &action, nullptr);
  seconds_to_end = static_cast<unsigned>(time.count());
}

void sleep_until(std::chrono::steady_clock::time_point when) {
  using namespace std::chrono;
  while (!flag) {
    const auto left = when - steady_clock::now();
    if (left <= nanoseconds(0)) return;
    // Short naps: an interrupt that lands between the test of the flag and the sleep costs one.
    const auto nap = std::min<nanoseconds>(left, milliseconds(50));
    const timespec time{0, static_cast<long>(nap.count())};
    nanosleep(&time, nullptr);
  }
}

bool write_output(std::string_view text) {
  return StandardOutput::instance().write(text);
}

bool flush_output() {
  return StandardOutput::instance().flush();
}

int finish_output(int status) {
  const bool flushed = flush_output();
  const int error = StandardOutput::instance().error();
  if (flushed && error == 0) return status;
  // A reader that goes away (| head) is no failure.
  pollfd out{STDOUT_FILENO, 0, 0};
  const bool gone = ::poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP)) != 0;
  if (gone || error == EPIPE || status != 0) return status;
  print_error("vitrine: standard output: {}\n", StandardOutput::instance().problem());
  return 1;
}

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
  return write_output(out) && flush_output();
}

namespace {

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

Progress::Progress(const std::string& what, std::optional<std::chrono::milliseconds> time)
    : what_(printable(what)),
      time_(time),
      terminal_(::isatty(STDERR_FILENO) == 1),
      began_(std::chrono::steady_clock::now()) {}

void Progress::show(std::size_t samples) {
  if (!terminal_) return;
  const double passed = seconds(std::chrono::steady_clock::now() - began_);
  const std::string of = time_ ? fmt::format(" of {:.1f}", seconds(*time_)) : std::string();
  print_error("\r\x1b[K{}: {:.1f}{} s, {} samples (^C to end)", what_, passed, of, samples);
  std::fflush(stderr);
  shown_ = true;
}

void Progress::clear() {
  if (std::exchange(shown_, false)) print_error("\r\x1b[K");
}

namespace {

// A list is there within this time as a rule.
constexpr std::chrono::milliseconds until_line{500}, between_lines{100};
constexpr std::chrono::milliseconds until_note{3000}, between_notes{5000};

}  // namespace

ListingProgress::ListingProgress()
    : terminal_(::isatty(STDERR_FILENO) == 1),
      next_(std::chrono::steady_clock::now() + (terminal_ ? until_line : until_note)) {}

void ListingProgress::show(std::size_t done, std::size_t all) {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + (terminal_ ? between_lines : between_notes);
  if (terminal_)
    print_error("\r\x1b[Klooked at {} of {} processes", done, all);
  else
    print_error("vitrine: note: looked at {} of {} processes so far\n", done, all);
  shown_ = terminal_;
}

void ListingProgress::clear() {
  if (std::exchange(shown_, false)) print_error("\r\x1b[K");
}

}  // namespace vitrine::cli
