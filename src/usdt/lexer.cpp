#include "usdt/lexer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/limits.hpp"
#include "base/text.hpp"

namespace vitrine::usdt {
namespace {

constexpr std::string_view spaces = " \t\r\n\f\v";

bool is_space(char c) {
  return spaces.find(c) != spaces.npos;
}

std::string_view without_spaces(std::string_view text) {
  return trimmed(text, spaces);
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

namespace {

bool in_identifier(char c) {
  return is_letter(c) || is_digit(c);
}

/// The identifier or number that a text begins with.
std::string_view first_word(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && in_identifier(text[end])) ++end;
  return text.substr(0, end);
}

/// Two adjacent words, which no expression of C has: "the socket".
bool has_prose(std::string_view text) {
  while (!text.empty()) {
    const std::string_view word = first_word(text);
    text = without_spaces(text.substr(word.empty() ? 1 : word.size()));
    if (!word.empty() && word != "defined" && !first_word(text).empty()) return true;
  }
  return false;
}

/// Whether `rest` cannot stand behind the directive `word`: `# if the socket is closed`.
bool is_sentence(std::string_view word, std::string_view rest) {
  const bool comment = rest.starts_with("/*") || rest.starts_with("//");
  if (word == "else" || word == "endif") return !rest.empty() && !comment;
  if (word == "if" || word == "elif" || word == "ifdef" || word == "ifndef" || word == "elifdef" ||
      word == "elifndef" || word == "undef")
    return has_prose(rest.substr(0, std::min(rest.find("/*"), rest.find("//"))));
  if (word == "include" || word == "import" || word == "include_next" || word == "embed")
    return !rest.starts_with('<') && !rest.starts_with('"') && has_prose(rest);
  if (word == "line") return rest.empty() || (!is_digit(rest.front()) && has_prose(rest));
  if (word == "ident") return !rest.starts_with('"') && has_prose(rest);
  return false;
}

}  // namespace

/// Behind '#': whether the line is a comment of the kind that systemtap's dtrace skips, `# text`,
/// and neither a line marker nor a directive of C.
bool Lexer::is_remark() const {
  static constexpr std::array<std::string_view, 20> directives = {
      "if",      "ifdef",   "ifndef", "elif",         "elifdef", "elifndef", "else",
      "endif",   "include", "import", "include_next", "define",  "undef",    "error",
      "warning", "line",    "pragma", "ident",        "assert",  "embed"};
  std::string_view line = text_.substr(at_, text_.substr(at_).find('\n'));
  if (line.starts_with('#')) return true;
  if (line.empty() || !is_space(line.front())) return false;
  line = without_spaces(line);
  const std::string_view word = first_word(line);
  if (word.empty()) return !line.empty() && !line.starts_with("/*") && !line.starts_with("\\");
  const std::string_view rest = without_spaces(line.substr(word.size()));
  if (!std::ranges::all_of(word, is_digit))
    return std::ranges::count(directives, word) == 0 || is_sentence(word, rest);
  return !rest.empty() && rest.front() != '"';
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
  line = without_spaces(line);
  return std::nullopt;
}

/// `# 12 "file" 1 3` as preprocessors write it, or what follows `#line`.
std::optional<Error> Lexer::follow_line_marker(std::string_view line, Location at) {
  std::uint32_t number = 0;
  const auto [end, failure] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (failure != std::errc{} || number > 0x7fffffff)
    return problem(at, "#line without a line number", "write #line 12 \"file.d\"");
  line = without_spaces(line.substr(static_cast<std::size_t>(end - line.data())));
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
      if (is_remark()) {
        while (at_ < text_.size() && peek() != '\n') ++at_;
        continue;
      }
      std::string line;
      if (auto error = read_directive(line)) return tl::unexpected<Error>(*error);
      const bool named = line.starts_with("line") && line.size() > 4 && !is_letter(line[4]);
      if (!named && (line.empty() || !is_digit(line.front()))) {
        if (line.empty()) continue;  // a null directive
        return Token{Token::Kind::directive, std::move(line), start};
      }
      if (auto error = follow_line_marker(without_spaces(named ? line.substr(4) : line), start))
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

namespace {

/// Change no type: __extension__ int x; restrict and inline do not concern callers.
constexpr std::array<std::string_view, 10> no_matter = {
    "__extension__", "__restrict", "__restrict__", "restrict", "inline",
    "__inline",      "__inline__", "_Noreturn",    "register", "userland"};

constexpr std::array<std::string_view, 6> with_brackets = {
    "__attribute__", "__attribute", "__asm__", "__asm", "asm", "_Alignas"};

constexpr std::size_t max_quoted = 40;  // characters of the user's text in a message

}  // namespace

TokenStream::TokenStream(std::string_view text, std::string path) : lexer_(text, std::move(path)) {
  now_ = pull();
  behind_ = pull();
  stop_on_error();
}

void TokenStream::stop_on_error() {
  if (error_) now_ = behind_ = Token{Token::Kind::end, "", now_.at};
}

void TokenStream::fail(Location at, const std::string& reason, std::string remedy) {
  if (!error_) error_ = lexer_.problem(at, reason, std::move(remedy));
  stop_on_error();
}

void TokenStream::take_directive(Token directive) {
  const std::string word = directive.text.substr(0, directive.text.find_first_of(" \t("));
  if (word == "pragma") {
    pragmas_.push_back(std::move(directive));
  } else if (word != "ident") {
    fail(directive.at, fmt::format("#{} requires the C preprocessor", word.substr(0, max_quoted)),
         "add -C to run it");
  }
}

Token TokenStream::pull_plain() {
  while (!error_) {
    Result<Token> token = lexer_.next();
    if (!token) {
      error_ = token.error();
      break;
    }
    if (token->kind != Token::Kind::directive) return std::move(*token);
    take_directive(std::move(*token));
  }
  return Token{Token::Kind::end, "", {}};
}

Token TokenStream::pull() {
  Token token = pull_plain();
  while (token.kind == Token::Kind::identifier) {
    if (std::ranges::count(with_brackets, token.text) != 0) {
      const Location start = token.at;
      std::size_t depth = 0;
      do {
        token = pull_plain();
        if (token.text == "(") ++depth;
        if (token.text == ")" && depth > 0) --depth;
        if (token.kind == Token::Kind::end && !error_)
          error_ =
              lexer_.problem(start, "this attribute is not terminated", "close its parentheses");
      } while (depth > 0 && token.kind != Token::Kind::end);
      if (token.text == ")") token = pull_plain();
    } else if (std::ranges::count(no_matter, token.text) != 0) {
      token = pull_plain();
    } else {
      break;
    }
  }
  return token;
}

void TokenStream::advance() {
  if (error_) return;
  now_ = std::move(behind_);
  Token next = now_.kind == Token::Kind::end ? now_ : pull();
  behind_ = std::move(next);
  stop_on_error();
}

bool TokenStream::accept(std::string_view text) {
  if (!is(text)) return false;
  advance();
  return true;
}

void TokenStream::expect(std::string_view text, const std::string& after,
                         const std::string& remedy) {
  if (!accept(text))
    fail(fmt::format("missing '{}' after {}, before {}", text, after, named()), remedy);
}

void TokenStream::skip_brackets() {
  const Location start = now_.at;
  const std::string opening = now_.text;
  std::size_t depth = 0;
  do {
    if (is("(") || is("[") || is("{")) ++depth;
    if (is(")") || is("]") || is("}")) --depth;
    if (at_end()) return fail(start, fmt::format("this '{}' is not closed", opening), "close it");
    advance();
  } while (depth > 0);
}

std::string TokenStream::named() const {
  if (at_end()) return "the end of the file";
  std::string text = now_.text.substr(0, max_quoted);
  if (text.size() < now_.text.size()) text += "…";
  return fmt::format("'{}'", text);
}

}  // namespace vitrine::usdt
