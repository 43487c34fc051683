// Text that is shown again and again in the same place of a terminal.
#pragma once

#include <cstddef>
#include <string_view>

namespace vitrine::cli {

struct TerminalSize {
  std::size_t columns = 80;
  std::size_t lines = 24;
};

/// Of standard output; 80 by 24 where it is no terminal or does not tell.
TerminalSize terminal_size();

/// Shows text on standard output in place of what it showed before. Nothing else may be printed
/// there meanwhile.
class LiveText {
 public:
  /// False when nobody reads any more. Lines past the terminal's height would scroll away and could
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

}  // namespace vitrine::cli
