#include "usdt/token_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace vitrine::usdt {
namespace {

/// Change no type: __extension__ int x; restrict and inline say nothing to callers.
constexpr std::array<std::string_view, 10> no_matter = {
    "__extension__", "__restrict", "__restrict__", "restrict", "inline",
    "__inline",      "__inline__", "_Noreturn",    "register", "userland"};

constexpr std::array<std::string_view, 6> with_brackets = {
    "__attribute__", "__attribute", "__asm__", "__asm", "asm", "_Alignas"};

constexpr std::size_t most_quoted = 40;  // characters of the user's text in a message

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
    fail(directive.at, fmt::format("#{} requires the C preprocessor", word.substr(0, most_quoted)),
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
  std::string text = now_.text.substr(0, most_quoted);
  if (text.size() < now_.text.size()) text += "…";
  return fmt::format("'{}'", text);
}

}  // namespace vitrine::usdt
