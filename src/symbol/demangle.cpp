#include "symbol/demangle.hpp"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/limits.hpp"
#include "base/text.hpp"
#include "sandbox/confinement.hpp"

namespace vitrine::symbol {
namespace {

constexpr std::size_t longest = 1024;
constexpr std::size_t max_references = 20;

/// How often a name refers back to one of its own parts (S_, S0_, T_, T0_, …). Each may double what
/// comes out, so that a few hundred bytes of a hostile file could become gigabytes.
std::size_t references(std::string_view name) {
  std::size_t count = 0;
  for (std::size_t i = 0; i + 1 < name.size(); ++i) {
    if (name[i] != 'S' && name[i] != 'T') continue;
    const std::size_t end = name.find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", i + 1);
    if (end != name.npos && name[end] == '_') ++count;
  }
  return count;
}

std::optional<std::string> cxx_name(const std::string& symbol) {
  if (!symbol.starts_with("_Z") || symbol.size() > longest || references(symbol) > max_references)
    return std::nullopt;
  struct Free {
    void operator()(char* text) const { std::free(text); }
  };
  int status = 0;
  const std::unique_ptr<char, Free> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status));
  if (status != 0 || !text) return std::nullopt;
  const std::string_view name = text.get();
  if (name.size() > limits::demangled_bytes) return std::nullopt;
  return std::string(name);
}

}  // namespace

std::string demangled_anywhere(const std::string& symbol) {
  auto name = rust_name(symbol);
  if (!name) name = legacy_rust_name(symbol);
  if (!name) name = cxx_name(symbol);
  return name ? *std::move(name) : std::string(symbol);
}

std::string demangled(const std::string& symbol) {
  return sandbox::is_worker() ? demangled_anywhere(symbol) : symbol;
}

namespace {

// Parts of a name refer back to others, so that a short one may unfold to any length, and refer to
// itself: depth, steps and length are bounded.
constexpr std::size_t max_depth = 100;
constexpr std::size_t max_steps = 20'000;

const char* basic_type(char tag) {
  static constexpr const char* names[26] = {
      "i8",    "bool",  "char", "f64", "str",   "f32",  nullptr, "u8",    "isize",
      "usize", nullptr, "i32",  "u32", "i128",  "u128", "_",     nullptr, nullptr,
      "i16",   "u16",   "()",   "...", nullptr, "i64",  "u64",   "!"};
  return tag >= 'a' && tag <= 'z' ? names[tag - 'a'] : nullptr;
}

/// One descent over the grammar of the RFC, printing as it goes. After a mistake (`failed_`) nothing
/// is read or printed any more.
class Decoder {
 public:
  explicit Decoder(std::string_view text) : text_(text) {}

  std::optional<std::string> decode() {
    path(true);
    if (!failed_ && at_ < text_.size() && text_[at_] >= 'A' && text_[at_] <= 'Z') {
      silent_ = true;  // the crate that it was instantiated for
      path(true);
    }
    if (failed_ || at_ != text_.size()) return std::nullopt;
    return std::move(out_);
  }

 private:
  struct Identifier {
    std::uint64_t disambiguator = 0;
    std::string_view name;
    bool punycode = false;
  };

  void fail() { failed_ = true; }

  [[nodiscard]] char peek() const { return failed_ || at_ >= text_.size() ? '\0' : text_[at_]; }
  char next() {
    const char c = peek();
    if (c == '\0') fail();
    ++at_;
    return c;
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  void print(std::string_view text) {
    if (failed_ || silent_) return;
    if (out_.size() + text.size() > limits::demangled_bytes) return fail();
    out_ += text;
  }

  /// "_" is 0, "0_" 1, and so on in base 62.
  std::uint64_t base_62() {
    if (take('_')) return 0;
    std::uint64_t value = 0;
    while (!failed_ && !take('_')) {
      const char c = next();
      std::uint64_t digit = 0;
      if (is_digit(c))
        digit = static_cast<std::uint64_t>(c - '0');
      else if (c >= 'a' && c <= 'z')
        digit = static_cast<std::uint64_t>(c - 'a') + 10;
      else if (c >= 'A' && c <= 'Z')
        digit = static_cast<std::uint64_t>(c - 'A') + 36;
      else
        fail();
      if (value > (UINT64_MAX - 62) / 62) fail();
      value = value * 62 + digit;
    }
    return value + 1;
  }

  std::uint64_t optional_base_62(char tag) { return take(tag) ? base_62() + 1 : 0; }

  Identifier identifier() {
    Identifier found;
    found.disambiguator = optional_base_62('s');
    plain_name(found);
    return found;
  }

  void plain_name(Identifier& into) {
    into.punycode = take('u');
    if (!is_digit(peek())) return fail();
    std::size_t length = 0;
    if (!take('0'))
      while (is_digit(peek())) {
        length = length * 10 + static_cast<std::size_t>(next() - '0');
        if (length > text_.size()) return fail();
      }
    take('_');
    if (failed_ || length > text_.size() - at_) return fail();
    into.name = text_.substr(at_, length);
    at_ += length;
  }

  void print_name(const Identifier& identifier) {
    if (identifier.punycode)
      print(fmt::format("punycode{{{}}}", identifier.name));
    else
      print(identifier.name);
  }

  /// Goes on with `what` where a back reference points to, then here again.
  template <class What>
  void follow(What what) {
    const std::size_t here = at_ - 1;
    const std::uint64_t target = base_62();
    if (failed_ || target >= here) return fail();
    if (silent_) return;
    const std::size_t back = at_;
    at_ = static_cast<std::size_t>(target);
    what();
    at_ = back;
  }

  class Step {
   public:
    explicit Step(Decoder& decoder) : decoder_(decoder) {
      if (++decoder_.depth_ > max_depth || ++decoder_.steps_ > max_steps) decoder_.fail();
    }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    ~Step() { --decoder_.depth_; }

   private:
    Decoder& decoder_;
  };

  /// `value`: arguments of generics are written as in expressions, "f::<T>".
  void path(bool value) {
    const Step step(*this);
    switch (next()) {
      case 'C': {
        print_name(identifier());
        break;
      }
      case 'M':
        implementation();
        print("<");
        type();
        print(">");
        break;
      case 'X':
        implementation();
        [[fallthrough]];
      case 'Y':
        print("<");
        type();
        print(" as ");
        path(false);
        print(">");
        break;
      case 'N':
        nested(value);
        break;
      case 'I':
        path(value);
        print(value ? "::<" : "<");
        list([&] { generic_argument(); });
        print(">");
        break;
      case 'B':
        follow([&] { path(value); });
        break;
      default:
        fail();
    }
  }

  /// Where an implementation is: not part of the name.
  void implementation() {
    optional_base_62('s');
    const bool before = std::exchange(silent_, true);
    path(false);
    silent_ = before;
  }

  void nested(bool value) {
    const char kind = next();
    path(value);
    const Identifier inner = identifier();
    if (kind >= 'A' && kind <= 'Z') {
      print("::{");
      print(kind == 'C' ? "closure" : kind == 'S' ? "shim" : std::string_view(&kind, 1));
      if (!inner.name.empty()) {
        print(":");
        print_name(inner);
      }
      print(fmt::format("#{}}}", inner.disambiguator));
    } else if (kind >= 'a' && kind <= 'z') {
      if (inner.name.empty()) return;
      print("::");
      print_name(inner);
    } else {
      fail();
    }
  }

  /// Up to "E". Returns how many.
  template <class What>
  std::size_t list(What what, std::string_view between = ", ") {
    std::size_t count = 0;
    while (!failed_ && !take('E')) {
      if (count++ != 0) print(between);
      what();
    }
    return count;
  }

  void generic_argument() {
    if (take('L'))
      lifetime(base_62());
    else if (take('K'))
      constant();
    else
      type();
  }

  /// Lifetimes are counted from the innermost binder outwards; 0 is one that is left out.
  void lifetime(std::uint64_t index) {
    if (index == 0) return print("'_");
    if (index > bound_) return fail();
    const std::uint64_t depth = bound_ - index;
    if (depth < 26)
      print(std::string{'\'', static_cast<char>('a' + depth)});
    else
      print(fmt::format("'_{}", depth));
  }

  /// "for<'a, 'b> " in front of what `inner` prints.
  template <class What>
  void bound(What inner) {
    const std::uint64_t count = optional_base_62('G');
    if (count > max_steps) return fail();
    if (count != 0) {
      print("for<");
      for (std::uint64_t i = 0; i < count && !failed_; ++i) {
        if (i != 0) print(", ");
        ++bound_;
        lifetime(1);
      }
      print("> ");
    }
    inner();
    bound_ -= std::min(bound_, count);
  }

  void reference(std::string_view mutability) {
    print("&");
    if (take('L'))
      if (const std::uint64_t index = base_62(); index != 0) {
        lifetime(index);
        print(" ");
      }
    print(mutability);
    type();
  }

  void type() {
    const Step step(*this);
    const char tag = next();
    if (const char* name = basic_type(tag)) return print(name);
    switch (tag) {
      case 'A':
        print("[");
        type();
        print("; ");
        constant();
        return print("]");
      case 'S':
        print("[");
        type();
        return print("]");
      case 'T': {
        print("(");
        if (list([&] { type(); }) == 1) print(",");
        return print(")");
      }
      case 'R':
        return reference("");
      case 'Q':
        return reference("mut ");
      case 'P':
        print("*const ");
        return type();
      case 'O':
        print("*mut ");
        return type();
      case 'F':
        return bound([&] { function(); });
      case 'D':
        print("dyn ");
        bound([&] { list([&] { dynamic_trait(); }, " + "); });
        if (!take('L')) return fail();
        if (const std::uint64_t index = base_62(); index != 0) {
          print(" + ");
          lifetime(index);
        }
        return;
      case 'B':
        return follow([&] { type(); });
      default:
        --at_;
        return path(false);
    }
  }

  void function() {
    if (take('U')) print("unsafe ");
    if (take('K')) {
      Identifier abi;
      if (take('C'))
        abi.name = "C";
      else
        plain_name(abi);
      std::string name(abi.name);
      for (char& c : name)
        if (c == '_') c = '-';
      print("extern \"" + name + "\" ");
    }
    print("fn(");
    list([&] { type(); });
    print(")");
    if (take('u')) return;  // returns ()
    print(" -> ");
    type();
  }

  void dynamic_trait() {
    // The types that belong to the trait go into the brackets of its own arguments.
    bool open = false;
    if (take('I')) {
      path(false);
      print("<");
      open = true;
      list([&] { generic_argument(); });
    } else {
      path(false);
    }
    while (take('p')) {
      print(open ? ", " : "<");
      open = true;
      Identifier name;
      plain_name(name);
      print_name(name);
      print(" = ");
      type();
    }
    if (open) print(">");
  }

  void constant() {
    const Step step(*this);
    const char tag = next();
    if (tag == 'p') return print("_");
    if (tag == 'B') return follow([&] { constant(); });
    const char* of = basic_type(tag);
    if (of == nullptr) return fail();
    const bool negative = take('n');
    const std::size_t from = at_;
    while (!failed_ && peek() != '_') next();
    if (failed_) return;
    const std::string_view digits = text_.substr(from, at_ - from);
    ++at_;
    std::uint64_t value = 0;
    if (digits.empty() || digits.find_first_not_of("0123456789abcdef") != digits.npos)
      return fail();
    if (digits.size() > 16) return print(fmt::format("{}0x{}", negative ? "-" : "", digits));
    for (const char c : digits)
      value = value * 16 + static_cast<std::uint64_t>(is_digit(c) ? c - '0' : c - 'a' + 10);
    if (tag == 'b' && value < 2) return print(value == 0 ? "false" : "true");
    if (tag == 'c') return print_character(value);
    if (std::string_view("asilxnhjtmyo").find(tag) == std::string_view::npos) return fail();
    print(fmt::format("{}{}", negative ? "-" : "", value));
  }

  void print_character(std::uint64_t value) {
    if (value >= 0x20 && value < 0x7f && value != '\'' && value != '\\')
      print(fmt::format("'{}'", static_cast<char>(value)));
    else
      print(fmt::format("'\\u{{{:x}}}'", value));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
  std::size_t depth_ = 0, steps_ = 0;
  std::uint64_t bound_ = 0;  ///< lifetimes in force
  bool silent_ = false, failed_ = false;
};

struct Escape {
  std::string_view code, text;
};
constexpr Escape escapes[] = {{"SP", "@"}, {"BP", "*"}, {"RF", "&"}, {"LT", "<"},
                              {"GT", ">"}, {"LP", "("}, {"RP", ")"}, {"C", ","}};

/// One component of an old name: "_$LT$T$GT$" is "<T>", ".." is "::".
bool unescape(std::string_view part, std::string& out) {
  if (part.starts_with("_$")) part.remove_prefix(1);
  while (!part.empty()) {
    if (part.starts_with("..")) {
      out += "::";
      part.remove_prefix(2);
      continue;
    }
    if (part[0] != '$') {
      out += part[0];
      part.remove_prefix(1);
      continue;
    }
    const std::size_t end = part.find('$', 1);
    if (end == part.npos) return false;
    const std::string_view code = part.substr(1, end - 1);
    part.remove_prefix(end + 1);
    const Escape* known = nullptr;
    for (const Escape& escape : escapes)
      if (escape.code == code) known = &escape;
    unsigned value = 0;
    if (known != nullptr) {
      out += known->text;
    } else if (code.size() == 3 && code[0] == 'u' &&
               code.find_first_not_of("0123456789abcdef", 1) == code.npos) {
      for (const char c : code.substr(1))
        value = value * 16 + static_cast<unsigned>(is_digit(c) ? c - '0' : c - 'a' + 10);
      if (value < 0x20 || value > 0x7e) return false;
      out += static_cast<char>(value);
    } else {
      return false;
    }
  }
  return true;
}

/// What a compiler adds behind a name: ".llvm.123", ".cold". Kept, but for the first.
std::string_view without_suffix(std::string_view symbol) {
  const std::size_t at = symbol.find(".llvm.");
  return symbol.substr(0, at);
}

}  // namespace

std::optional<std::string> rust_name(std::string_view symbol) {
  symbol = without_suffix(symbol);
  if (!symbol.starts_with("_R") || symbol.size() > limits::name_bytes) return std::nullopt;
  std::string_view text = symbol.substr(2);
  const std::size_t suffix = text.find('.');
  auto name = Decoder(text.substr(0, suffix)).decode();
  if (name && suffix != text.npos) *name += fmt::format(" ({})", text.substr(suffix));
  return name;
}

std::optional<std::string> legacy_rust_name(std::string_view symbol) {
  symbol = without_suffix(symbol);
  constexpr std::size_t hash = 17;  // h and 16 digits
  if (!symbol.starts_with("_ZN") || !symbol.ends_with('E') || symbol.size() > limits::name_bytes)
    return std::nullopt;
  std::string_view rest = symbol.substr(3, symbol.size() - 4);
  std::string out;
  std::string_view last;
  while (!rest.empty()) {
    std::size_t length = 0;
    while (!rest.empty() && is_digit(rest[0]) && length <= limits::name_bytes) {
      length = length * 10 + static_cast<std::size_t>(rest[0] - '0');
      rest.remove_prefix(1);
    }
    if (length == 0 || length > rest.size()) return std::nullopt;
    last = rest.substr(0, length);
    rest.remove_prefix(length);
    if (rest.empty()) break;
    if (!out.empty()) out += "::";
    if (!unescape(last, out)) return std::nullopt;
  }
  if (out.empty() || last.size() != hash || last[0] != 'h' ||
      last.find_first_not_of("0123456789abcdef", 1) != last.npos)
    return std::nullopt;
  return out;
}

}  // namespace vitrine::symbol
