// Lists of subjects: the language of --show, --by, --hist and --sum.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "query/lexer.hpp"
#include "query/subject.hpp"

namespace vitrine::query {

// Lists of what to show or to group by: the language of --show, --by, --hist, --sum and --match
// (docs/tracing.md).

/// How a value is printed.
enum class Format : std::uint8_t {
  plain,     ///< by its type
  hex,       ///< hex(arg0)
  decimal,   ///< dec(arg0): a number, even if it is a pointer or has a name
  duration,  ///< ns(arg0): nanoseconds, printed with a fitting unit
  brief,     ///< a container's ID: its first 12 digits, as container engines print it
  lines      ///< a stack: a line for each function, below the rest
};

/// One item of a list: `hex(arg0)`, `str(arg1) as path`, `label.tenant`.
struct Item {
  Subject subject;
  Format format = Format::plain;
  std::string title;  ///< after `as`, or else the item as it was written
};

/// Errors: usage, with the text and a caret under the place where it stops making sense.
Result<std::vector<Item>> parse_items(std::string_view text);

/// As parse_items(), of exactly one item.
Result<Item> parse_item(std::string_view text);

/// An item at one site: what to ask value_of() for.
struct BoundItem {
  Bound subject;
  Format format = Format::plain;
  std::string title;
};

std::vector<BoundItem> bind(const std::vector<Item>& items, const Arguments& site,
                            std::vector<Capture>& captures);

// The part that conditions and lists have in common: subjects and the functions around them.

struct WrittenSubject {
  Subject subject;
  Format format = Format::plain;
};

/// What is to the left or right of a comparison.
using Operand = std::variant<WrittenSubject, Literal>;

/// Takes an operand with the arithmetic in it: `arg0 & 4`, `*(int32*)(arg2 + 8)`, `17`. The token
/// ahead is its first. Errors: usage.
Result<Operand> take_operand(Lexer& lexer);

/// Takes a subject without arithmetic: `arg0`, `price`, `label["http.route"]`, `str(arg1)`, `bytes(arg1, arg2)`,
/// `hex(pid)`. The token ahead is its first. Errors: usage.
Result<WrittenSubject> take_subject(Lexer& lexer);

}  // namespace vitrine::query
