#include "cli/output/text.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "base/text.hpp"
#include "cli/output/live.hpp"

namespace vitrine::cli {

std::string counted(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string printable(std::string_view bytes) {
  std::string out;
  append_printable(out, bytes);
  return out;
}

void append_printable(std::string& out, std::string_view bytes) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '\\'; };
  if (std::all_of(bytes.begin(), bytes.end(), is_plain)) return void(out += bytes);  // most are
  out.reserve(out.size() + bytes.size());
  while (!bytes.empty()) {
    const auto point = first_code_point(bytes);
    const std::size_t length = point ? point->bytes : 1;
    if (!point || point->value < 0x20 || point->value == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<std::uint8_t>(bytes[0]));
    } else if (needs_escaping(point->value)) {
      out += fmt::format("\\u{{{:x}}}", static_cast<std::uint32_t>(point->value));
    } else if (point->value == '\\') {
      out += "\\\\";
    } else {
      out += bytes.substr(0, length);
    }
    bytes.remove_prefix(length);
  }
}

std::string delimited(std::string_view bytes) {
  std::string text = printable(bytes);
  if (!text.empty() && text.find_first_of(" \"=") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '\\';
    out += c;
  }
  return out + '"';
}

Style Style::of_stdout() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool dumb = term != nullptr && std::string_view(term) == "dumb";
  return Style(isatty(STDOUT_FILENO) != 0 && (no_color == nullptr || *no_color == '\0') && !dumb);
}

std::string Style::wrap(std::string_view code, std::string_view text) const {
  return coloured_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

std::size_t width(std::string_view text) {
  // Most text is plain: what differs is looked for once.
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~'; };
  if (std::all_of(text.begin(), text.end(), is_plain)) return text.size();
  std::size_t columns = 0;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '\x1b') {
      i = text.find('m', i);
      if (i == std::string_view::npos) break;
      ++i;
      continue;
    }
    columns += (static_cast<std::uint8_t>(text[i]) & 0xc0) != 0x80 ? 1 : 0;
    ++i;
  }
  return columns;
}

std::string cut_to(const std::string& text, std::size_t columns, std::string_view mark) {
  if (width(text) <= columns) return text;
  const std::size_t room = columns - std::min(columns, width(mark));
  std::size_t end = 0, seen = 0;
  for (; end < text.size(); ++end) {
    const bool begins = (static_cast<unsigned char>(text[end]) & 0xc0) != 0x80;
    if (begins && seen++ == room) break;
  }
  return text.substr(0, end).append(mark);
}

void Columns::fit(std::size_t column, std::size_t width) {
  if (column >= widths_.size()) widths_.resize(column + 1);
  widths_[column] = std::max(widths_[column], width);
}

void Columns::fit(const std::vector<std::string>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) fit(i, width(cells[i]));
}

void Columns::end(std::string& line) {
  line.resize(line.find_last_not_of(' ') + 1);
  line += '\n';
}

std::string Columns::line(const std::vector<std::string>& cells, std::size_t indent) const {
  std::string line(indent, ' ');
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (i + 1 < cells.size())
      append(line, i, cells[i], width(cells[i]));
    else
      line += cells[i];
  end(line);
  return line;
}

std::string Table::str(std::size_t indent) const {
  std::string out;
  each_line(indent, [&](std::string& line) {
    out += line;
    return true;
  });
  return out;
}

bool Table::print(std::size_t indent) const {
  return each_line(indent, [](std::string& line) { return write_output(line); });
}

void Table::add(std::string_view cell) {
  text_ += cell;
  cells_.push_back({text_.size(), width(cell)});
}

bool Table::each_line(std::size_t indent, const std::function<bool(std::string&)>& take) const {
  Columns columns;
  std::size_t first = 0;
  for (const std::size_t end : row_ends_) {
    for (std::size_t i = first; i < end; ++i) columns.fit(i - first, cells_[i].width);
    first = end;
  }
  std::string line;
  std::size_t begin = 0;
  first = 0;
  for (const std::size_t end : row_ends_) {
    line.assign(indent, ' ');
    for (std::size_t i = first; i < end; ++i) {
      const auto cell = std::string_view(text_).substr(begin, cells_[i].end - begin);
      begin = cells_[i].end;
      if (i + 1 < end)
        columns.append(line, i - first, cell, cells_[i].width);
      else
        line += cell;
    }
    Columns::end(line);
    first = end;
    if (!take(line)) return false;
  }
  return true;
}

namespace {

/// Three digits: 1.23, 12.3, 123.
std::string three_digits(double value) {
  const double size = std::abs(value);
  return fmt::format("{:.{}f}", value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

}  // namespace

bool shows_utf8() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {  // the first that is set decides
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    std::string name(value);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return name.find("UTF-8") != name.npos || name.find("UTF8") != name.npos;
  }
  return false;
}

std::string duration_text(double ns, bool utf8) {
  const double size = std::abs(ns);
  if (size < 999.5) return fmt::format("{:.0f}ns", ns);
  if (size < 999.5e3) return three_digits(ns / 1e3) + (utf8 ? "µs" : "us");
  if (size < 999.5e6) return three_digits(ns / 1e6) + "ms";
  if (size < 99.95e9) return three_digits(ns / 1e9) + "s";
  const double minutes = std::trunc(ns / 60e9);
  return fmt::format("{:.0f}m{:02.0f}s", minutes, std::floor(std::abs(ns / 1e9 - minutes * 60)));
}

std::string number_text(const query::Number& number) {
  const auto* fraction = std::get_if<double>(&number);
  if (fraction == nullptr) return std::visit([](auto n) { return fmt::format("{}", n); }, number);
  if (!std::isfinite(*fraction) || std::abs(*fraction) >= 1e15)
    return fmt::format("{:.6g}", *fraction);
  std::string text = fmt::format("{:.3f}", *fraction);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  if (text == "0" && *fraction != 0) return fmt::format("{:.3g}", *fraction);
  return text;
}

}  // namespace vitrine::cli
