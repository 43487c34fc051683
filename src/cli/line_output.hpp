// LineOutput: many lines to standard output in few writes.
#pragma once

#include <string>

namespace vitrine::cli {

/// Lines wait in text() until flush(): whoever fills it flushes before waiting for anything, so that
/// a reader sees each line as soon as there is one.
class LineOutput {
 public:
  std::string& text() { return text_; }

  /// Whether so much waits that it should be written before more is added.
  [[nodiscard]] bool is_full() const { return text_.size() >= most_bytes; }

  /// Writes what waits. False when nobody reads any more: the reader went away, or, after an
  /// interrupt, takes nothing for a second.
  [[nodiscard]] bool flush();

 private:
  static constexpr std::size_t most_bytes = 64 * 1024;  // what a pipe holds

  std::string text_;
};

}  // namespace vitrine::cli
