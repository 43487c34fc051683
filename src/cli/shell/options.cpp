#include "cli/shell/options.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/file_descriptor.hpp"
#include "cli/shell/report.hpp"
#include "observe/probes/functions.hpp"
#include "observe/process/facts.hpp"
#include "probe/function_pattern.hpp"

namespace vitrine::cli {

CLI::Option* add_duration(CLI::App& app, std::optional<std::chrono::milliseconds>& into,
                          const std::string& until) {
  return add_parsed(app, "-d,--duration", into, parse_duration, until)->option_text("TIME");
}

CLI::Option* add_watch(CLI::App& app, std::optional<std::chrono::milliseconds>& into,
                       const std::string& action, const std::string& more) {
  return add_parsed(
             app, watch_option, into, parse_interval,
             fmt::format("{} every INTERVAL ({} if omitted){}", action, usual_interval, more))
      ->option_text("[=INTERVAL]");
}

CLI::Option* add_json(CLI::App& app, bool& into, const std::string& object) {
  return app.add_flag("--json", into, "Print NDJSON: one object for each " + object);
}

CLI::Option* add_exec(CLI::App& app, bool& exec, std::vector<std::string>& command,
                      const std::string& action) {
  app.add_option(exec_word_option, command)->group("");  // words_of() makes it of what follows --
  return app.add_flag(
      exec_option, exec,
      fmt::format("Start the command after -- and {} it (implied by -- COMMAND...)", action));
}

namespace {

constexpr double longest = 366.0 * 24 * 3600 * 1000;  // a year, in milliseconds

/// Not by a function of libm, which the command loads after it has parsed its options.
template <class Duration>
Duration rounded(double count) {
  // NOLINTNEXTLINE(bugprone-incorrect-roundings): not negative
  return Duration(static_cast<typename Duration::rep>(count + 0.5));
}

}  // namespace

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  double number = 0;
  const auto [rest, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  if (unit.empty()) unit = "s";
  const double factor = unit == "ms"  ? 1
                        : unit == "s" ? 1000
                        : unit == "m" ? 60 * 1000
                        : unit == "h" ? 3600 * 1000
                                      : 0;
  if (error != std::errc{} || !(number >= 0) || std::signbit(number) || factor == 0)
    return fail(ErrorCode::usage, fmt::format("invalid duration '{}'", text),
                "write a number and a unit: 500ms, 2s, 1.5m");
  if (number > longest / factor)
    return fail(ErrorCode::usage, fmt::format("duration '{}' is longer than a year", text));
  return rounded<std::chrono::milliseconds>(number * factor);
}

Result<std::chrono::nanoseconds> parse_short_duration(std::string_view text) {
  double number = 0;
  const auto [rest, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  const std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  const double factor = unit == "ns"                   ? 1
                        : unit == "us" || unit == "µs" ? 1e3
                        : unit == "ms"                 ? 1e6
                        : unit == "s"                  ? 1e9
                        : unit == "m"                  ? 60e9
                        : unit == "h"                  ? 3600e9
                                                       : 0;
  if (error != std::errc{} || !(number >= 0) || std::signbit(number) || factor == 0)
    return fail(ErrorCode::usage, fmt::format("invalid duration '{}'", text),
                "write a number and a unit: 250us, 10ms, 1.5s");
  if (number > longest * 1e6 / factor)
    return fail(ErrorCode::usage, fmt::format("duration '{}' is longer than a year", text));
  return rounded<std::chrono::nanoseconds>(number * factor);
}

Result<std::chrono::milliseconds> parse_interval(std::string_view text) {
  auto interval = parse_duration(text);
  if (interval && interval->count() == 0)
    return fail(ErrorCode::usage, "invalid interval: 0", "give at least 1ms, for example 500ms");
  return interval;
}

namespace {

std::optional<int> as_pid(const std::string& word) {
  int pid = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, pid);
  return error == std::errc() && stop == end && pid > 0 ? std::optional(pid) : std::nullopt;
}

}  // namespace

std::string process_id(const std::string& text) {
  std::string problem = at_least_one(text);
  if (!problem.empty() || as_pid(text)) return problem;
  return "expected a process ID (Linux has at most 4194304), not '" + text + "'";
}

void ProcessOptions::define(CLI::App& app) {
  app.add_option("-p,--pid", pids_, "Process IDs, like the arguments; may be repeated")
      ->delimiter(',')
      ->check(process_id)
      ->allow_extra_args(false)
      ->option_text("PID,...");
  app.add_option("-n,--name", names_,
                 "Processes with this name of the program or first thread; may be repeated")
      ->allow_extra_args(false)
      ->option_text("NAME");
}

Result<std::vector<pid_t>> ProcessOptions::take() const {
  std::vector<pid_t> all;
  const auto add = [&](pid_t pid) {
    if (std::ranges::count(all, pid) == 0) all.push_back(pid);
  };
  std::ranges::for_each(pids_, add);
  for (const std::string& name : names_)
    std::ranges::for_each(TRY(observe::processes_named(name)), add);
  return all;
}

Result<pid_t> ProcessOptions::take_one(pid_t argument) const {
  auto pids = TRY(take());
  if (argument != 0) pids.insert(pids.begin(), argument);
  if (pids.size() > 1)
    return fail(ErrorCode::usage,
                fmt::format("this command reads one process, not {}: {}", pids.size(),
                            fmt::join(pids, ", ")),
                "give one of them");
  return pids.empty() ? 0 : pids.front();
}

namespace {

constexpr const char* variable = "VITRINE_REDACT_SECRET";
constexpr std::size_t min_secret = 16;    // shorter ones can be tried, all of them
constexpr std::size_t max_secret = 4096;  // a larger file is some other file
constexpr const char* how_to = "create one: head -c 32 /dev/urandom | base64 > secret";

/// Keys of profiles and conditions that are no labels.
constexpr std::array facts{"pid", "tid", "cpu", "comm", "thread", "process", "probe"};

Result<std::string> read(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  auto text = file ? read_all(file.get(), max_secret + 1) : tl::unexpected(errno);
  if (!text)
    return fail(ErrorCode::usage,
                fmt::format("cannot read the secret {}: {}", path, std::strerror(text.error())),
                how_to);
  return std::move(*text);
}

Result<std::string> checked(std::string secret, const std::string& source) {
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  if (secret.size() < min_secret || secret.size() > max_secret)
    return fail(ErrorCode::usage,
                fmt::format("the secret in {} has {} bytes; it must have {} to {}", source,
                            secret.size() > max_secret ? "too many" : std::to_string(secret.size()),
                            min_secret, max_secret),
                how_to);
  return secret;
}

Result<std::string> random_secret() {
  std::string secret(32, '\0');
  if (::getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size()))
    return fail(ErrorCode::failed, fmt::format("no random bytes: {}", std::strerror(errno)));
  return secret;
}

}  // namespace

void RedactOptions::define(CLI::App& app, const std::string& what) {
  auto* redact =
      app.add_option("--redact", keys_,
                     fmt::format("Show a keyed hash instead of the values of these {}; wildcards "
                                 "allowed, may be repeated",
                                 what))
          ->delimiter(',')
          ->allow_extra_args(false)
          ->option_text("KEY,...");
  app.add_option(
         "--redact-secret", secret_file_,
         fmt::format(
             "Hash with the secret in this file, so that runs can be compared (random; or {})",
             variable))
      ->needs(redact)
      ->option_text("FILE");
}

Result<Redaction> RedactOptions::take() {
  const char* const given = std::getenv(variable);
  const std::string inherited = given == nullptr ? "" : given;
  ::unsetenv(variable);
  if (keys_.empty()) return Redaction();
  for (const std::string& key : keys_) unmet_.emplace_back(key, Redaction({key}, {}));
  if (std::ranges::count(keys_, "") != 0)
    return fail(ErrorCode::usage, "--redact has an empty KEY", "'*' is every key");
  for (const std::string& key : keys_)
    if (std::ranges::count(facts, key) != 0)
      note(
          fmt::format("--redact {} hides a label of that name; process and thread data from the "
                      "kernel is shown",
                      key));
  auto secret = TRY(!secret_file_.empty() ? read(secret_file_).and_then([&](std::string text) {
    return checked(std::move(text), secret_file_);
  })
                    : !inherited.empty()  ? checked(inherited, variable)
                                          : random_secret());
  return Redaction(keys_, std::move(secret));
}

template <class Covers>
void RedactOptions::look_at(Covers covers) {
  std::erase_if(unmet_, [&](const auto& one) { return covers(one.second); });
}

void RedactOptions::look_at_label(std::string_view key) {
  constexpr std::string_view of_waker = "waker.";
  look_at([&](const Redaction& one) {
    return one.covers_label(key) ||
           (key.starts_with(of_waker) && one.covers_label(key.substr(of_waker.size())));
  });
}

void RedactOptions::look_at_attribute(std::string_view key) {
  look_at([&](const Redaction& one) { return one.covers_attribute(key); });
}

void RedactOptions::look_at_argument(std::size_t number, std::string_view name) {
  look_at([&](const Redaction& one) { return one.covers_argument(number, name); });
}

void RedactOptions::report_unmet() const {
  for (const auto& [key, its] : unmet_)
    note(fmt::format("no label, attribute or argument matched --redact {}", key));
}

namespace {

/// Also a link that leads nowhere: what is wrong with it is reported when it is opened.
bool is_there(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

}  // namespace

std::size_t leading_targets(std::span<const std::string> words) {
  const auto is_target = [](const std::string& word) {
    const std::size_t slash = word.find('/');
    return as_pid(word).has_value() || (slash != word.npos && slash < word.find(':'));
  };
  if (words.empty()) return 0;
  const auto first_probe = std::find_if_not(words.begin() + 1, words.end(), is_target);
  return static_cast<std::size_t>(first_probe - words.begin());
}

Result<ProbeWords> parse_targets(std::span<const std::string> words) {
  ProbeWords parsed;
  for (const std::string& word : words) {
    if (word.empty())
      return fail(ErrorCode::usage, "an empty argument names no process, file or probe",
                  "give a process ID, a file or PROVIDER:NAME");
    if (probe::is_function_pattern(word)) {
      parsed.patterns.emplace_back(word);
      parsed.functions.push_back(word);
    } else if (const auto pid = as_pid(word)) {
      parsed.targets.push_back({*pid, {}});
    } else if (word.find('/') != word.npos || is_there(word)) {
      parsed.targets.push_back({0, word});
    } else if (word.find_first_of(":*?[") != word.npos) {
      parsed.patterns.emplace_back(word);
    } else if (auto program = sandbox::find_program(word)) {
      parsed.targets.push_back({0, std::move(*program)});
    } else if (at_least_one(word).empty()) {
      return fail(ErrorCode::usage, "PID: " + process_id(word),
                  "`vitrine ps` lists processes that publish labels or a context");
    } else {
      return fail(ErrorCode::not_found,
                  fmt::format("{}: no such file, and no such program in PATH", word),
                  "write a probe as PROVIDER:NAME and a process as its ID");
    }
  }
  if (parsed.targets.empty() && !parsed.functions.empty())
    for (std::string& file : TRY(observe::files_of_functions(parsed.functions)))
      parsed.targets.push_back({0, std::move(file)});
  if (parsed.targets.empty())
    return fail(ErrorCode::usage, "missing argument: no process or file",
                "give one, for example: vitrine probes 4242 'libc:*'");
  return parsed;
}

}  // namespace vitrine::cli
