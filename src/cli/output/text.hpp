// Values as text for a terminal: escaped bytes of targets, and numbers with units.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "query/lexer.hpp"

namespace vitrine::cli {

// Bytes of a target on a terminal: shown, never obeyed.

/// `bytes` with everything that could control a terminal or reorder a line written out: control
/// characters and invalid UTF-8 as \xNN, bidirectional and invisible format characters as \u{NNNN},
/// a backslash as \\. What is left is safe to print.
std::string printable(std::string_view bytes);
void append_printable(std::string& out, std::string_view bytes);

/// printable(), in double quotes when it has spaces, quotes or nothing at all, so that where a
/// value ends is always visible.
std::string delimited(std::string_view bytes);

/// "1 probe", "2 probes".
std::string counted(std::uint64_t count, std::string_view what);

/// How text is decorated: ANSI colours on a terminal, nothing elsewhere or under NO_COLOR.
class Style {
 public:
  explicit Style(bool coloured) : coloured_(coloured) {}
  /// For standard output as it is now.
  static Style of_stdout();

  std::string bold(std::string_view text) const { return wrap("1", text); }
  std::string dim(std::string_view text) const { return wrap("2", text); }
  std::string green(std::string_view text) const { return wrap("32", text); }
  std::string yellow(std::string_view text) const { return wrap("33", text); }
  std::string red(std::string_view text) const { return wrap("31", text); }
  std::string cyan(std::string_view text) const { return wrap("36", text); }

 private:
  std::string wrap(std::string_view code, std::string_view text) const;
  bool coloured_;
};

/// Columns a terminal needs for `text`, colour codes not counted.
std::size_t width(std::string_view text);

/// At most so many columns of a text without colours: where it is cut, `mark` is at its end.
std::string cut_to(const std::string& text, std::size_t columns, std::string_view mark);

/// Columns as wide as the widest of their cells; the last one runs free.
class Columns {
 public:
  void fit(const std::vector<std::string>& cells);
  /// A line that ends with a newline: `indent` spaces, the cells, two spaces between them.
  std::string line(const std::vector<std::string>& cells, std::size_t indent = 0) const;

 private:
  friend class Table;

  void fit(std::size_t column, std::size_t width);
  /// Appends a cell, and what is between it and a next one.
  void append(std::string& line, std::size_t column, std::string_view cell,
              std::size_t width) const {
    line.append(cell).append(widths_[column] - width + 2, ' ');
  }
  static void end(std::string& line);

  std::vector<std::size_t> widths_;
};

/// Rows of cells, each column as wide as its widest cell; the last column runs free. Lists have thousands of rows:
/// their cells are parts of one string.
class Table {
 public:
  void row(const std::vector<std::string>& cells) {
    for (const std::string& cell : cells) add(cell);
    row_ends_.push_back(cells_.size());
  }
  void row(const std::convertible_to<std::string_view> auto&... cells) {
    (add(cells), ...);
    row_ends_.push_back(cells_.size());
  }
  bool empty() const { return row_ends_.empty(); }
  /// All lines, as Columns make them.
  std::string str(std::size_t indent = 0) const;
  /// Writes them to standard output, one by one. False: it has no reader.
  bool print(std::size_t indent = 0) const;

 private:
  struct Cell {
    std::size_t end = 0;  ///< in `text_`; it begins where the one before ends
    std::size_t width = 0;
  };

  void add(std::string_view cell);
  bool each_line(std::size_t indent, const std::function<bool(std::string&)>& take) const;

  std::string text_;
  std::vector<Cell> cells_;
  std::vector<std::size_t> row_ends_;  ///< in `cells_`
};

// Numbers with units, short enough for a column.

/// Whether the user's terminal shows UTF-8, by the locale variables.
bool shows_utf8();

/// Prints on standard error. A write that fails there (closed, full) does not end the command.
template <class... Args>
void print_error(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
}

/// Three digits and a unit: 950ns, 1.23µs (1.23us where `utf8` is false), 45.6ms, 1.20s, 2m05s.
std::string duration_text(double ns, bool utf8);

/// Appends an integer, without a string of its own: events are written by the million.
void append_number(std::string& out, std::integral auto number) {
  const fmt::format_int text(number);
  out.append(text.data(), text.size());
}

/// Integers as they are; fractions with three digits behind the point at most.
std::string number_text(const query::Number& number);

}  // namespace vitrine::cli
