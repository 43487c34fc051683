#include "query/show.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/limits.hpp"
#include "query/lexer.hpp"

namespace vitrine::query {
namespace {

Result<Item> take_item(Lexer& lexer) {
  const std::size_t from = lexer.peek().at;
  auto operand = TRY(take_operand(lexer));
  const std::string_view text = lexer.text();
  if (std::holds_alternative<Literal>(operand))
    return syntax_error(text, from,
                        fmt::format("expected an argument or a label, not `{}`",
                                    text.substr(from, lexer.last_end() - from)),
                        "arg0, an argument's name, label.KEY, pid, tid, comm");
  auto& written = std::get<WrittenSubject>(operand);
  Item item{std::move(written.subject), written.format, {}};
  item.title = lexer.text().substr(from, lexer.last_end() - from);
  if (item.subject.kind == Subject::Kind::container) item.format = Format::brief;
  if (item.subject.kind == Subject::Kind::stack) item.format = Format::lines;
  // Where the key alone identifies it, that is the title.
  if (item.subject.kind == Subject::Kind::label) item.title = item.subject.name;
  if (item.subject.kind == Subject::Kind::named_argument && item.format == Format::plain &&
      item.subject.form == Form::natural)
    item.title = item.subject.name;
  if (!lexer.peek().is_word("as")) return item;
  TRY(lexer.take());
  const Token::Kind kind = lexer.peek().kind;
  if (kind != Token::Kind::word && kind != Token::Kind::text)
    return lexer.error(fmt::format("expected a name after `as`, not {}", lexer.ahead()),
                       "str(arg1) as path");
  auto title = TRY(lexer.take());
  item.title = std::move(title.text);
  return item;
}

}  // namespace

Result<std::vector<Item>> parse_items(std::string_view text) {
  auto lexer = TRY(Lexer::open(text));
  std::vector<Item> items;
  while (true) {
    auto item = TRY(take_item(lexer));
    if (items.size() == limits::query_steps)
      return lexer.error("too many items", fmt::format("at most {}", limits::query_steps));
    items.push_back(std::move(item));
    auto comma = TRY(lexer.skip(","));
    if (comma) continue;
    if (lexer.peek().kind == Token::Kind::end) return items;
    return lexer.error(fmt::format("expected a comma, not {}", lexer.ahead()),
                       "arg0, str(arg1) as path, label.tenant");
  }
}

Result<Item> parse_item(std::string_view text) {
  auto items = TRY(parse_items(text));
  if (items.size() != 1)
    return syntax_error(text, items[1].subject.at, "expected one argument or label",
                        "omit everything after the first");
  return std::move(items.front());
}

std::vector<BoundItem> bind(const std::vector<Item>& items, const Arguments& site,
                            std::vector<Capture>& captures) {
  std::vector<BoundItem> bound;
  bound.reserve(items.size());
  for (const Item& item : items)
    bound.push_back({bind(item.subject, site, captures), item.format, item.title});
  return bound;
}

namespace {

struct Function {
  std::string_view name;
  Form form;
  Format format;
  bool has_length;
};
constexpr std::array<Function, 6> functions{{
    {"str", Form::text, Format::plain, true},
    {"bytes", Form::bytes, Format::plain, true},
    {"buf", Form::bytes, Format::plain, true},
    {"hex", Form::number, Format::hex, false},
    {"dec", Form::number, Format::decimal, false},
    {"ns", Form::number, Format::duration, false},
}};
constexpr std::string_view function_names = "str(), bytes(), buf(), hex(), dec() and ns()";

struct Reserved {
  std::string_view word;
  Subject::Kind kind;
};
constexpr std::array<Reserved, 14> reserved{{{"pid", Subject::Kind::pid},
                                             {"module", Subject::Kind::module},
                                             {"site", Subject::Kind::site},
                                             {"func", Subject::Kind::function},
                                             {"uid", Subject::Kind::uid},
                                             {"cgroup", Subject::Kind::cgroup},
                                             {"container", Subject::Kind::container},
                                             {"stack", Subject::Kind::stack},
                                             {"tid", Subject::Kind::tid},
                                             {"cpu", Subject::Kind::cpu},
                                             {"comm", Subject::Kind::comm},
                                             {"probe", Subject::Kind::probe},
                                             {"trace_id", Subject::Kind::trace_id},
                                             {"span_id", Subject::Kind::span_id}}};

/// N of `argN`.
std::optional<std::uint32_t> argument_index(std::string_view word) {
  if (!word.starts_with("arg") || word.size() == 3 || word.size() > 6) return std::nullopt;
  std::uint32_t index = 0;
  for (const char digit : word.substr(3)) {
    if (digit < '0' || digit > '9') return std::nullopt;
    index = index * 10 + static_cast<std::uint32_t>(digit - '0');
  }
  return index;
}

/// What a word alone means.
Subject subject_of(std::string_view word) {
  Subject subject;
  if (const auto index = argument_index(word)) {
    subject.kind = Subject::Kind::argument;
    subject.index = *index;
    return subject;
  }
  for (const Reserved& known : reserved) {
    if (known.word != word) continue;
    subject.kind = known.kind;
    return subject;
  }
  if (word.starts_with("arg.")) {
    subject.kind = Subject::Kind::named_argument;
    word.remove_prefix(4);
  } else if (word.starts_with("label.")) {
    subject.kind = Subject::Kind::label;
    word.remove_prefix(6);
  }
  subject.name = word;
  return subject;
}

/// Behind `label`: `["key"]`.
Result<Subject> take_quoted_key(Lexer& lexer) {
  TRY(lexer.skip("["));
  if (lexer.peek().kind != Token::Kind::text)
    return lexer.error(fmt::format("expected a label key in quotes, not {}", lexer.ahead()),
                       R"(label["http.route"])");
  auto key = TRY(lexer.take());
  if (!lexer.peek().is("]"))
    return lexer.error(fmt::format("expected `]`, not {}", lexer.ahead()),
                       R"(label["http.route"])");
  TRY(lexer.take());
  Subject subject;
  subject.kind = Subject::Kind::label;
  subject.name = std::move(key.text);
  return subject;
}

/// Behind the comma of `str(arg1, …` and `bytes(arg1, …`.
Result<Subject::Length> take_length(Lexer& lexer) {
  constexpr std::string_view next =
      "the number of bytes, or the argument that has it: bytes(arg1, 16)";
  Subject::Length length;
  if (lexer.peek().kind == Token::Kind::number) {
    const auto* bytes = std::get_if<std::int64_t>(&lexer.peek().number);
    if (bytes == nullptr || *bytes < 1 ||
        *bytes > static_cast<std::int64_t>(limits::query_captured))
      return lexer.error("invalid number of bytes", fmt::format("1 to {}", limits::query_captured));
    length.constant = static_cast<std::uint32_t>(*bytes);
  } else if (lexer.peek().kind == Token::Kind::word) {
    const Subject subject = subject_of(lexer.peek().text);
    if (subject.kind == Subject::Kind::argument) {
      length.argument = subject.index;
    } else if (subject.kind == Subject::Kind::word ||
               subject.kind == Subject::Kind::named_argument) {
      length.name = subject.name;
    } else {
      return lexer.error(fmt::format("{} is not a length", lexer.ahead()), next);
    }
  } else {
    return lexer.error(fmt::format("{} is not a length", lexer.ahead()), next);
  }
  TRY(lexer.take());
  return length;
}

/// A subject without a function around it.
Result<Subject> take_plain(Lexer& lexer) {
  const Token& ahead = lexer.peek();
  if (ahead.kind != Token::Kind::word)
    return lexer.error(fmt::format("expected an argument or a label, not {}", lexer.ahead()),
                       "arg0, an argument's name, label.KEY, pid, tid, comm");
  const bool is_connective =
      ahead.is_word("and") || ahead.is_word("or") || ahead.is_word("not") || ahead.is_word("as");
  if (is_connective)
    return lexer.error(fmt::format("expected an argument or a label, not {}", lexer.ahead()),
                       fmt::format(R"(a label of that name: label["{}"])", ahead.text));
  auto word = TRY(lexer.take());
  Subject subject = subject_of(word.text);
  if (word.text == "label" && lexer.peek().is("[")) {
    subject = TRY(take_quoted_key(lexer));
  }
  subject.at = word.at;
  return subject;
}

/// Behind the name of a function, whose `(` is ahead.
Result<WrittenSubject> take_call(Lexer& lexer, const Function& function) {
  TRY(lexer.skip("("));
  const std::size_t from = lexer.peek().at;
  auto operand = TRY(take_operand(lexer));
  auto* inner = std::get_if<WrittenSubject>(&operand);
  if (inner == nullptr || inner->format != Format::plain ||
      (inner->subject.form != Form::natural && inner->subject.kind != Subject::Kind::calculated))
    return syntax_error(
        lexer.text(), from,
        fmt::format("{}() takes an argument or a number made of arguments", function.name),
        fmt::format("{}(arg0)", function.name));
  Subject subject = std::move(inner->subject);
  using Kind = Subject::Kind;
  const bool may_be_argument = subject.kind == Kind::argument || subject.kind == Kind::word ||
                               subject.kind == Kind::named_argument ||
                               subject.kind == Kind::calculated;
  const bool reads_memory = function.form != Form::number;
  if (reads_memory && !may_be_argument)
    return syntax_error(
        lexer.text(), subject.at,
        fmt::format("{}() reads the memory that an argument points to", function.name),
        fmt::format("{}(arg0)", function.name));
  if (may_be_argument) subject.form = function.form;
  auto comma = TRY(lexer.skip(","));
  if (comma) {
    if (!function.has_length)
      return lexer.error(fmt::format("{}() takes one argument", function.name),
                         fmt::format("{}(arg0)", function.name));
    subject.length = TRY(take_length(lexer));
  }
  if (!lexer.peek().is(")"))
    return lexer.error(fmt::format("expected `)`, not {}", lexer.ahead()),
                       fmt::format("close {}( with )", function.name));
  TRY(lexer.take());
  return WrittenSubject{std::move(subject), function.format};
}

}  // namespace

Result<WrittenSubject> take_subject(Lexer& lexer) {
  const Token first = lexer.peek();
  auto subject = TRY(take_plain(lexer));
  if (!lexer.peek().is("(")) return WrittenSubject{std::move(subject), Format::plain};
  const auto function = std::find_if(functions.begin(), functions.end(),
                                     [&](const Function& f) { return f.name == first.text; });
  if (function == functions.end())
    return syntax_error(lexer.text(), first.at, fmt::format("no such function: `{}`", first.text),
                        function_names);
  auto call = take_call(lexer, *function);
  if (call) call->subject.at = first.at;
  return call;
}

}  // namespace vitrine::query
