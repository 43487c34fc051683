// Standard output, with a buffer of its own. stdio forgets why a write failed, and drops text where one would block: standard
// output is non-blocking if a process that shares the open file has made it so.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace vitrine {

class StandardOutput {
 public:
  /// The one of this process.
  static StandardOutput& instance();

  /// While this returns true, a write waits for its reader no longer than a second.
  void set_hurried(bool (*hurried)()) { hurried_ = hurried; }

  /// Adds text, and writes what waits when that is much, or where a terminal shows it. False: not all could be written.
  bool write(std::string_view text);

  /// What waits, to add lines to. A caller that adds to it flushes when it is_full(), and before it waits for anything:
  /// a reader sees each line as soon as there is one.
  std::string& text() { return text_; }
  [[nodiscard]] bool is_full() const { return text_.size() >= pipe_bytes; }

  /// Writes what waits. False when the output does not take it: that is dropped.
  bool flush();

  /// Why a write failed, the last one that did; 0: none did. Not that the reader took nothing when hurried.
  [[nodiscard]] int error() const { return error_; }

  /// Why not all could be written, for a message.
  [[nodiscard]] std::string problem() const;

 private:
  static constexpr std::size_t pipe_bytes = 64 * 1024;  // what a pipe holds

  StandardOutput();
  [[nodiscard]] bool is_hurried() const { return hurried_ != nullptr && hurried_(); }

  std::string text_;
  std::size_t max_waiting_ = 0;
  bool (*hurried_)() = nullptr;
  int error_ = 0;
};

}  // namespace vitrine
