#include "probe/argument.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/limits.hpp"
#include "base/text.hpp"
#include "probe/expression.hpp"
#include "probe/machines.hpp"
#include "probe/x86.hpp"

namespace vitrine::probe {
namespace {

/// Larger values are none that a compiler passes.
constexpr std::uint32_t largest_value = 1U << 20;

/// Takes `-4@`, `8f@`. Nullopt: the argument has no size.
Parsed<std::optional<ArgumentSize>> take_size(Cursor& cursor) {
  Cursor ahead = cursor;
  ArgumentSize size;
  size.is_signed = ahead.take("-");
  const std::size_t digits = ahead.rest().find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string_view::npos) return std::nullopt;
  const std::string_view number = ahead.rest().substr(0, digits);
  ahead.skip(digits);
  size.is_float = ahead.take("f");
  if (!ahead.take("@")) return std::nullopt;
  for (const char c : number) {
    size.bytes = size.bytes * 10 + static_cast<std::uint32_t>(c - '0');
    if (size.bytes > largest_value) break;
  }
  if (size.bytes == 0 || size.bytes > largest_value)
    return syntax_error(fmt::format("its size is {} bytes", quoted(number)));
  cursor = ahead;
  return size;
}

constexpr std::size_t longest_reason = 512;  // bytes

Parsed<OperandText> parse_operand(std::string_view text, Machine machine) {
  switch (machine) {
    case Machine::x86_64:
    case Machine::i386:
      return parse_x86(text, machine);
    case Machine::aarch64:
      return parse_aarch64(text);
    case Machine::arm:
      return parse_arm(text);
    case Machine::ppc64:
      return parse_ppc64(text);
    case Machine::s390x:
      return parse_s390x(text);
    case Machine::riscv64:
      return parse_riscv64(text);
    case Machine::loongarch64:
      return parse_loongarch64(text);
    case Machine::other:
      break;
  }
  return unsupported("arguments of this machine are not supported");
}

}  // namespace

tl::expected<vitrine_operand, ArgumentError> compile_argument(std::string_view text,
                                                              Machine machine, Address address,
                                                              OperandSymbols* symbols) {
  if (text.size() > limits::argument_text)
    return syntax_error(fmt::format("it has {} bytes", text.size()));
  Cursor cursor(text);
  const auto size = TRY(take_size(cursor.skip_blanks()));
  if (cursor.skip_blanks().done()) return syntax_error("it has no operand");
  if (cursor.take("?")) {  // types.cpp writes these; a file's own note may contain anything
    const std::string_view why = cursor.skip_blanks().rest();
    if (why.empty()) return syntax_error("it has no operand");
    return unsupported(std::string(why.substr(0, longest_reason)));
  }
  const auto operand = TRY(parse_operand(cursor.rest(), machine));
  return lower(operand, size, machine, address, symbols);
}

std::string_view name(ArgumentError::Kind kind) {
  switch (kind) {
    case ArgumentError::Kind::syntax:
      return "syntax";
    case ArgumentError::Kind::unresolved:
      return "unresolved";
    case ArgumentError::Kind::unsupported:
      return "unsupported";
  }
  return "syntax";
}

}  // namespace vitrine::probe

// Where one argument ends and the next begins (docs/formats/sdt.md, "Argument list"). Operands have
// blanks in them: `[sp, 32]`, `DWORD PTR -24[rbp]`. A blank before a size (`-4@`) always begins an
// argument, for no operand has one in it; so nothing that is wrong with an argument moves the next.
// Without sizes, what is on both sides of the blank decides. Where people mix both, only what is
// surely an operand begins an argument without a size.

namespace vitrine::probe {
namespace {

bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/// Where the next blank is, or the next that is none; else the text's size. Not by find_first_of, which takes
/// ten times the time for texts as short as these.
std::size_t find_blank(std::string_view text, std::size_t from, bool is_wanted = true) {
  while (from < text.size() && is_blank(text[from]) != is_wanted) ++from;
  return from;
}

std::size_t skip_blanks(std::string_view text, std::size_t from) {
  return find_blank(text, from, false);
}

/// Whether a size and its `@` begin the text.
bool begins_with_size(std::string_view text) {
  std::size_t at = 0;
  if (at < text.size() && text[at] == '-') ++at;
  const std::size_t digits = at;
  while (at < text.size() && is_digit(text[at])) ++at;
  if (at == digits) return false;
  if (at < text.size() && text[at] == 'f') ++at;
  return at < text.size() && text[at] == '@';
}

/// For each byte, whether it is between a bracket and the one that closes it. A bracket without its
/// other half encloses nothing.
std::vector<bool> find_enclosed(std::string_view text) {
  constexpr std::string_view opening = "([{", closing = ")]}";
  std::vector<std::size_t> open;
  std::vector<int> change(text.size() + 1, 0);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (opening.find(text[i]) != opening.npos) open.push_back(i);
    const std::size_t kind = closing.find(text[i]);
    if (kind == closing.npos || open.empty() || text[open.back()] != opening[kind]) continue;
    ++change[open.back()];
    --change[i];
    open.pop_back();
  }
  std::vector<bool> enclosed(text.size(), false);
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += change[i];
    enclosed[i] = depth > 0;
  }
  return enclosed;
}

bool ends_with_word(std::string_view text, std::string_view word) {
  return text.ends_with(word) &&
         (text.size() == word.size() || is_blank(text[text.size() - word.size() - 1]) ||
          text[text.size() - word.size() - 1] == '@');
}

/// Whether an operand that ends with `before` goes on with `after`, across blanks.
bool goes_on(std::string_view before, std::string_view after) {
  constexpr std::array<std::string_view, 8> widths{"BYTE",  "WORD",  "DWORD",   "QWORD",
                                                   "TBYTE", "OWORD", "XMMWORD", "OFFSET"};
  if (before.empty() || std::string_view("+-*/,:|&^~<").find(before.back()) != before.npos)
    return true;
  if (ends_with_word(before, "PTR") || ends_with_word(before, "OFFSET")) return true;
  for (const std::string_view width : widths)
    if (ends_with_word(before, width) && after.starts_with("PTR")) return true;
  if (std::string_view("+*/,|&^<>").find(after.front()) != after.npos) return true;
  // A minus between blanks is between two terms; one before a term is its sign.
  return after.front() == '-' && after.size() > 1 && is_blank(after[1]);
}

/// Whether an AT&T operand begins the text: nothing else in a list with sizes is sure to be one.
bool begins_with_operand(std::string_view text) {
  const auto word = text.substr(0, find_blank(text, 0));
  return word.front() == '%' || word.front() == '$' || word.find("(%") != word.npos;
}

bool has_sizes(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); at = find_blank(text, at)) {
    at = skip_blanks(text, at);
    if (at < text.size() && begins_with_size(text.substr(at))) return true;
  }
  return false;
}

/// Decides which blanks of a list are between two arguments.
class Boundaries {
 public:
  explicit Boundaries(std::string_view list) : list_(list) {}

  /// Whether the blanks [end, next) end the argument that begins at `begin`.
  bool between(std::size_t begin, std::size_t end, std::size_t next) {
    const auto before = list_.substr(begin, end - begin), after = list_.substr(next);
    if (begins_with_size(after)) return true;  // what compilers write ends here
    if (enclosed_.empty()) {
      enclosed_ = find_enclosed(list_);
      sized_ = has_sizes(list_);
    }
    return !enclosed_[end] && !goes_on(before, after) && (!sized_ || begins_with_operand(after));
  }

 private:
  std::string_view list_;
  std::vector<bool> enclosed_;
  bool sized_ = false;
};

}  // namespace

std::vector<std::string> split_arguments(std::string_view text) {
  std::vector<std::string> arguments;
  if (text.starts_with(':')) return arguments;  // how "none" is written where "" is not possible
  text = text.substr(0, limits::argument_text);
  Boundaries boundaries(text);
  arguments.reserve(1 +
                    static_cast<std::size_t>(std::count_if(text.begin(), text.end(), is_blank)));
  std::size_t begin = skip_blanks(text, 0);
  for (std::size_t at = begin; at < text.size();) {
    const std::size_t end = find_blank(text, at);
    at = skip_blanks(text, end);
    if (at < text.size() && !boundaries.between(begin, end, at)) continue;
    arguments.emplace_back(text.substr(begin, end - begin));
    begin = at;
  }
  return arguments;
}

}  // namespace vitrine::probe
