// Output while a command runs: interruption, many lines in few writes, tables that refresh,
// progress.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace vitrine::cli {

// ^C: finish the work in hand, detach, print what there is, and end with 130.

/// Set by the first SIGINT, SIGTERM or SIGHUP after catch_interrupts(). Another one kills as usual, but
/// not within half a second: that belongs to the first.
const std::atomic<bool>& interrupted();

/// Whether that was SIGTERM: by it a service manager ends what has no other end.
bool is_terminated();

/// Also ignores SIGPIPE: a reader that goes away shows itself as a failed write.
void catch_interrupts();

/// After catch_interrupts(): an interrupted command that has not ended by itself within `time` ends with
/// exit code 1. Whole seconds.
void end_within(std::chrono::seconds time);

/// Becomes true with interrupted(), and when the time of stop_after() is over.
const std::atomic<bool>& stopped();

/// Makes stopped() true after this time. Once in a process.
void stop_after(std::chrono::milliseconds time);

/// What a reading that has begun when a --duration ends may still take.
inline constexpr std::chrono::milliseconds last_reading{500};

/// Sleeps until `when` or the first interrupt.
void sleep_until(std::chrono::steady_clock::time_point when);

// Text to standard output (base/standard_output.hpp); finish_output() reports why a write failed.

/// False when not all was written.
bool write_output(std::string_view text);

/// Writes what waits. False when the output takes it not.
bool flush_output();

// Text that is shown again and again in the same place of a terminal.

struct TerminalSize {
  std::size_t columns = 80;
  std::size_t lines = 24;
};

/// Of standard output; 80 by 24 where it is no terminal or does not report its size.
TerminalSize terminal_size();

/// Flushes standard output. Returns `status`, but 1, with a message, when that is 0 and something
/// could not be written to it (closed, full). A reader that goes away is no failure.
int finish_output(int status);

/// Shows text on standard output in place of what it showed before. Nothing else may be printed
/// there meanwhile.
class LiveText {
 public:
  /// False when the output has no reader. Lines past the terminal's height would scroll away and could
  /// not be replaced: they are left out.
  [[nodiscard]] bool show(std::string_view text);

  /// The last text, whole.
  [[nodiscard]] bool finish(std::string_view text);

  /// What is shown stays, and the next text goes below the cursor.
  void leave() { lines_ = 0; }

 private:
  bool replace(std::string_view text);
  std::size_t lines_ = 0;  ///< shown, and above the cursor
};

// A line on standard error with the progress of long work; nothing where that is no terminal.

class Progress {
 public:
  /// `time`: how long it will take; nothing: until something happens.
  Progress(const std::string& what, std::optional<std::chrono::milliseconds> time);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::size_t samples);
  /// Takes the line away.
  void clear();

 private:
  std::string what_;
  std::optional<std::chrono::milliseconds> time_;
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point began_;
};

// The same for a list that takes long: a line that is replaced on a terminal, a note now and then
// elsewhere.

class ListingProgress {
 public:
  ListingProgress();
  ~ListingProgress() { clear(); }
  ListingProgress(const ListingProgress&) = delete;
  ListingProgress& operator=(const ListingProgress&) = delete;

  void show(std::size_t done, std::size_t all);
  /// Takes the line away.
  void clear();

 private:
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point next_;  ///< when to show it
};

}  // namespace vitrine::cli
