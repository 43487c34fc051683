#include "query/show.hpp"

#include <fmt/format.h>

#include "base/limits.hpp"
#include "query/lexer.hpp"
#include "query/parse_subject.hpp"

namespace vitrine::query {
namespace {

Result<Item> take_item(Lexer& lexer) {
  const std::size_t from = lexer.peek().at;
  auto written = TRY(take_subject(lexer));
  Item item{std::move(written.subject), written.format, {}};
  item.title = lexer.text().substr(from, lexer.last_end() - from);
  // Where the key alone says it, that is the title.
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

}  // namespace vitrine::query
