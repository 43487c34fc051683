// A line on standard error that says how far long work is; nothing where that is no terminal.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace vitrine::cli {

class Progress {
 public:
  /// `time`: how long it will take; nothing: until something happens.
  Progress(std::string what, std::optional<std::chrono::milliseconds> time);
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

}  // namespace vitrine::cli
