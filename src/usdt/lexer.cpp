#include "usdt/lexer.hpp"

#include <fmt/format.h>

#include <charconv>

#include "base/characters.hpp"
#include "base/limits.hpp"

namespace vitrine::usdt {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

Lexer::Lexer(std::string_view text, std::string path) : text_(text) {
  file_numbers_.emplace(path, 0);
  files_.push_back(std::move(path));
  if (text_.starts_with("#!"))  // D scripts can be programs
    while (at_ < text_.size() && peek() != '\n') ++at_;
}

std::string Lexer::place(Location at) const {
  return fmt::format("{}:{}", files_[at.file], at.line);
}

Error Lexer::problem(Location at, const std::string& reason, std::string remedy) const {
  return {ErrorCode::malformed, place(at) + ": " + reason, std::move(remedy)};
}

void Lexer::step() {
  if (text_[at_] == '\n') {
    ++line_;
    line_start_ = true;
  } else if (!is_space(text_[at_])) {
    line_start_ = false;
  }
  ++at_;
}

/// At "/*" or "//".
std::optional<Error> Lexer::skip_comment() {
  const Location start = here();
  const bool line_start = line_start_;  // a comment is space
  if (peek(1) == '/') {
    while (at_ < text_.size() && peek() != '\n') ++at_;
    return std::nullopt;
  }
  at_ += 2;
  while (at_ < text_.size() && !starts("*/")) step();
  if (at_ >= text_.size())
    return problem(start, "this comment is not terminated", "end it with */");
  at_ += 2;
  line_start_ = line_start_ || line_start;
  return std::nullopt;
}

std::optional<Error> Lexer::skip_space() {
  while (at_ < text_.size()) {
    if (is_space(peek())) {
      step();
    } else if (starts("\\\n")) {
      at_ += 2;
      ++line_;
    } else if (starts("/*") || starts("//")) {
      if (auto error = skip_comment()) return error;
    } else {
      break;
    }
  }
  return std::nullopt;
}

/// Behind '#'. Leaves the lexer at the end of the logical line.
std::optional<Error> Lexer::read_directive(std::string& line) {
  char quote = '\0';
  while (at_ < text_.size() && peek() != '\n') {
    if (starts("\\\n") || starts("\\\r\n")) {
      at_ += peek(1) == '\n' ? 2 : 3;
      ++line_;
      line += ' ';
    } else if (quote == '\0' && starts("//")) {
      while (at_ < text_.size() && peek() != '\n') ++at_;
    } else if (quote == '\0' && starts("/*")) {
      if (auto error = skip_comment()) return error;
      line += ' ';
    } else {
      const char c = peek();
      if (quote != '\0' && c == '\\' && peek(1) != '\n' && at_ + 1 < text_.size()) {
        line += c;
        ++at_;
      } else if (c == quote) {
        quote = '\0';
      } else if (quote == '\0' && c == '"') {
        quote = c;
      }
      line += peek();
      ++at_;
    }
  }
  line = trimmed(line);
  return std::nullopt;
}

/// `# 12 "file" 1 3` as preprocessors write it, or what follows `#line`.
std::optional<Error> Lexer::follow_line_marker(std::string_view line, Location at) {
  std::uint32_t number = 0;
  const auto [end, failure] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (failure != std::errc{} || number > 0x7fffffff)
    return problem(at, "#line without a line number", "write #line 12 \"file.d\"");
  line = trimmed(line.substr(static_cast<std::size_t>(end - line.data())));
  if (line.starts_with('"')) {
    const std::size_t close = line.find('"', 1);
    if (close > limits::name_bytes)  // npos is, too
      return problem(at, "the file name of #line is not terminated", "write #line 12 \"file.d\"");
    const std::string name(line.substr(1, close - 1));
    const auto [known, is_new] =
        file_numbers_.try_emplace(name, static_cast<std::uint32_t>(files_.size()));
    if (is_new) files_.push_back(name);
    file_ = known->second;
  }
  line_ = number - 1;  // the newline to come counts
  return std::nullopt;
}

Result<Token> Lexer::quoted(char quote) {
  const Location start = here();
  std::string text(1, quote);
  ++at_;
  while (peek() != quote) {
    if (at_ >= text_.size() || peek() == '\n')
      return tl::unexpected<Error>(problem(start, "this string is not terminated on its line",
                                           fmt::format("end it with {}", quote)));
    if (peek() == '\\' && at_ + 1 < text_.size() && peek(1) != '\n') text += text_[at_++];
    text += text_[at_++];
  }
  ++at_;
  return Token{Token::Kind::string, text + quote, start};
}

Result<Token> Lexer::next() {
  for (;;) {
    if (auto error = skip_space()) return tl::unexpected<Error>(*error);
    if (at_ >= text_.size()) return Token{Token::Kind::end, "", here()};
    const Location start = here();
    const bool line_start = line_start_;
    const char c = peek();
    line_start_ = false;

    if (c == '#' && line_start) {
      ++at_;
      std::string line;
      if (auto error = read_directive(line)) return tl::unexpected<Error>(*error);
      const bool named = line.starts_with("line") && line.size() > 4 && !is_letter(line[4]);
      if (!named && (line.empty() || !is_digit(line.front()))) {
        if (line.empty()) continue;  // a null directive
        return Token{Token::Kind::directive, std::move(line), start};
      }
      if (auto error = follow_line_marker(trimmed(named ? line.substr(4) : line), start))
        return tl::unexpected<Error>(*error);
      continue;
    }
    if (is_letter(c)) {
      const std::size_t from = at_;
      while (is_letter(peek()) || is_digit(peek())) ++at_;
      return Token{Token::Kind::identifier, std::string(text_.substr(from, at_ - from)), start};
    }
    if (is_digit(c)) {
      const std::size_t from = at_;
      while (is_letter(peek()) || is_digit(peek()) || peek() == '.') ++at_;
      return Token{Token::Kind::number, std::string(text_.substr(from, at_ - from)), start};
    }
    if (c == '"' || c == '\'') return quoted(c);
    if (starts("...")) {
      at_ += 3;
      return Token{Token::Kind::punctuation, "...", start};
    }
    if (c > ' ' && c < 0x7f) {
      ++at_;
      return Token{Token::Kind::punctuation, std::string(1, c), start};
    }
    return tl::unexpected<Error>(
        problem(start,
                fmt::format("unexpected byte 0x{:02x} in a provider definition",
                            static_cast<unsigned char>(c)),
                "give the .d file, written in ASCII outside comments"));
  }
}

}  // namespace vitrine::usdt
