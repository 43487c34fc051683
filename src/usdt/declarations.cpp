#include "usdt/declarations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/limits.hpp"
#include "probe/types.hpp"

namespace vitrine::usdt {
namespace {

std::string list(const Derivation& function, Language language) {
  std::string out;
  for (const CType& parameter : function.parameters) {
    if (!out.empty()) out += ", ";
    out += spelling(parameter, language);
  }
  if (function.variadic) out += ", ...";
  return out.empty() ? "void" : out;
}

bool has_const(const std::string& qualifiers) {
  return qualifiers.find("const") != std::string::npos;
}

std::string with_const(const std::string& qualifiers) {
  if (has_const(qualifiers)) return qualifiers;
  return qualifiers.empty() ? "const" : "const " + qualifiers;
}

}  // namespace

std::string spelling(const CType& type, Language language) {
  std::string declarator;
  const auto derive = [&](const Derivation& step) {
    if (step.kind == Derivation::Kind::pointer) {
      const bool spaced = !step.qualifiers.empty() && !declarator.empty();
      declarator = "*" + step.qualifiers + (spaced ? " " : "") + declarator;
      return;
    }
    if (!declarator.empty() && declarator.front() == '*') declarator = "(" + declarator + ")";
    declarator += step.kind == Derivation::Kind::array ? "[" + step.bound + "]"
                                                       : "(" + list(step, language) + ")";
  };
  for (const Derivation& step : type.derivations) derive(step);
  std::string base = type.base;
  if (type.kind == CType::Kind::string && language == Language::c) {
    base = "char";
    derive({});
  }
  std::string out = type.qualifiers.empty() ? base : type.qualifiers + " " + base;
  return declarator.empty() ? out : out + " " + declarator;
}

CType as_parameter(CType type) {
  if (type.derivations.empty()) return type;
  Derivation& nearest = type.derivations.front();
  if (nearest.kind == Derivation::Kind::array) {
    nearest = Derivation{};
  } else if (nearest.kind == Derivation::Kind::function) {
    type.derivations.insert(type.derivations.begin(), Derivation{});
  }
  return type;
}

CType pointing_to_const(CType type) {
  if (type.kind == CType::Kind::string && type.derivations.empty()) {
    type.qualifiers = with_const(type.qualifiers);
    return type;
  }
  if (type.derivations.empty() || type.derivations.front().kind != Derivation::Kind::pointer)
    return type;
  if (type.derivations.size() > 1) {
    Derivation& pointee = type.derivations[1];
    if (pointee.kind == Derivation::Kind::pointer)
      pointee.qualifiers = with_const(pointee.qualifiers);
  } else if (type.kind != CType::Kind::function && type.kind != CType::Kind::string) {
    type.qualifiers = with_const(type.qualifiers);
  }
  return type;
}

namespace {

constexpr std::array<std::string_view, 9> bases = {
    "void", "char", "int", "float", "double", "_Bool", "bool", "__int128", "__int128_t"};
constexpr std::array<std::string_view, 10> modifiers = {
    "long",       "short",    "signed",      "unsigned",  "__signed",
    "__signed__", "_Complex", "__complex__", "__complex", "_Imaginary"};

}  // namespace

bool BaseType::is_word(std::string_view word) {
  return std::find(bases.begin(), bases.end(), word) != bases.end() ||
         std::find(modifiers.begin(), modifiers.end(), word) != modifiers.end();
}

void BaseType::add(std::string_view word) {
  words_ = std::min(words_ + 1, 8);  // no type has more
  if (word == "long") {
    longs_ = std::min(longs_ + 1, 3);
  } else if (word == "short") {
    ++shorts_;
  } else if (word == "unsigned") {
    ++unsigned_;
  } else if (word == "signed" || word.starts_with("__signed")) {
    ++signed_;
  } else if (std::find(bases.begin(), bases.end(), word) == bases.end()) {
    ++complex_;
  } else {
    two_bases_ = two_bases_ || !base_.empty();
    base_ = word == "bool" ? "_Bool" : word == "__int128_t" ? "__int128" : word;
  }
}

std::optional<CType> BaseType::type() const {
  const bool sign = signed_ + unsigned_ > 0;
  if (two_bases_ || shorts_ > 1 || signed_ + unsigned_ > 1 || longs_ > 2 ||
      (longs_ > 0 && shorts_ > 0))
    return std::nullopt;
  CType out;
  out.base = base_;
  if (base_ == "float" || base_ == "double" || (complex_ > 0 && base_.empty())) {
    if (sign || shorts_ > 0 || longs_ > (base_ == "double" ? 1 : 0)) return std::nullopt;
    out.kind = CType::Kind::floating;
    if (longs_ > 0) out.base = "long " + out.base;
    if (complex_ > 0) out.base = out.base.empty() ? "_Complex" : out.base + " _Complex";
    return out;
  }
  if (complex_ > 0) return std::nullopt;
  if (base_ == "void" || base_ == "_Bool") {
    if (sign || longs_ + shorts_ > 0) return std::nullopt;
    out.kind = base_ == "void" ? CType::Kind::empty : CType::Kind::integer;
    return out;
  }
  if (base_ == "char" || base_ == "__int128") {
    if (longs_ + shorts_ > 0) return std::nullopt;
    out.kind = base_ == "char" ? CType::Kind::integer : CType::Kind::wide_integer;
    if (unsigned_ > 0) out.base = "unsigned " + out.base;
    if (signed_ > 0 && base_ == "char") out.base = "signed char";
    return out;
  }
  out.kind = CType::Kind::integer;
  out.base = shorts_ > 0 ? "short" : longs_ == 2 ? "long long" : longs_ == 1 ? "long" : "int";
  if (unsigned_ > 0) out.base = "unsigned " + out.base;
  return out;
}

namespace {

/// Types of D and of the C library that need no declaration in the file.
constexpr std::array<std::string_view, 19> known_types = {
    "string",   "size_t",   "ssize_t",   "pid_t",     "uid_t",   "gid_t",    "off_t",
    "int8_t",   "int16_t",  "int32_t",   "int64_t",   "uint8_t", "uint16_t", "uint32_t",
    "uint64_t", "intptr_t", "uintptr_t", "ptrdiff_t", "time_t"};

constexpr std::array<std::string_view, 7> storage = {
    "typedef", "extern", "static", "auto", "_Thread_local", "__thread", "constexpr"};

bool is_tag(std::string_view word) {
  return word == "struct" || word == "union" || word == "enum";
}

/// "const", "volatile", or empty: not a qualifier. Some are passed over.
std::optional<std::string_view> qualifier(std::string_view word) {
  if (word == "const" || word == "__const" || word == "__const__") return "const";
  if (word == "volatile" || word == "__volatile" || word == "__volatile__") return "volatile";
  return std::nullopt;
}

void add_qualifier(std::string& list, std::string_view one) {
  if (list.find(one) != std::string::npos) return;
  if (one == "const" && !list.empty()) {
    list = "const " + list;  // in one order, so that equal types are spelled alike
  } else {
    list += (list.empty() ? "" : " ") + std::string(one);
  }
}

/// Whether observers read arguments of both types in the same way.
bool reads_alike(std::string_view one, std::string_view other) {
  const auto first = probe::c_type(one, Machine::x86_64);
  const auto second = probe::c_type(other, Machine::x86_64);
  return first && second && first->size == second->size && first->is_signed == second->is_signed &&
         first->kind == second->kind;
}

constexpr auto type_advice =
    "write a type of C: int, unsigned long, const char *, struct request *";

}  // namespace

bool Declarations::is_type(const Token& token) const {
  if (token.kind != Token::Kind::identifier) return false;
  const std::string& word = token.text;
  return BaseType::is_word(word) || is_tag(word) || qualifier(word) ||
         std::ranges::count(known_types, word) != 0 || types_.contains(word);
}

bool Declarations::starts_here() const {
  const Token& token = tokens_.now();
  if (token.kind != Token::Kind::identifier) return false;
  return is_type(token) || std::ranges::count(storage, token.text) != 0 ||
         token.text == "_Static_assert" || token.text.starts_with("__");
}

/// struct foo, enum bar; with `bodies` also what their braces hold.
void Declarations::tagged(CType& type, bool bodies) {
  const std::string tag = tokens_.now().text;
  type.kind = tag == "enum" ? CType::Kind::integer : CType::Kind::aggregate;
  type.base = tag;
  tokens_.advance();
  if (tokens_.is_identifier()) {
    type.base += " " + tokens_.now().text;
    tokens_.advance();
  } else if (!tokens_.is("{")) {
    return tokens_.fail(fmt::format("'{}' is followed by {}", tag, tokens_.named()),
                        fmt::format("name it: {} request", tag));
  }
  if (!tokens_.is("{")) return;
  if (!bodies)
    return tokens_.fail(fmt::format("the parameters define a {}", tag),
                        "define it before the provider, and name it here");
  tokens_.skip_brackets();
}

CType Declarations::specifiers(bool bodies) {
  const Location start = tokens_.now().at;
  CType type;
  BaseType base;
  bool named = false;  // by a tag or a typedef
  std::string words;
  while (tokens_.is_identifier()) {
    const std::string word = tokens_.now().text;
    if (const auto found = qualifier(word)) {
      add_qualifier(type.qualifiers, *found);
      tokens_.advance();
    } else if (BaseType::is_word(word) && !named) {
      base.add(word);
      if (words.size() < limits::dof_type_name) words += (words.empty() ? "" : " ") + word;
      tokens_.advance();
    } else if (std::ranges::count(storage, word) != 0) {
      if (!bodies) tokens_.fail(fmt::format("unexpected '{}' in a parameter", word), "remove it");
      tokens_.advance();
    } else if (named || !base.empty()) {
      break;  // the declarator's name
    } else if (is_tag(word)) {
      named = true;
      tagged(type, bodies);
    } else {
      named = true;
      const auto known = types_.find(word);
      if (word == "string" && known == types_.end()) {
        type.kind = CType::Kind::string;
      } else if (known != types_.end()) {
        type.kind = known->second.kind;
      }
      type.base = word;
      tokens_.advance();
      if (word == "__typeof__" && tokens_.is("(")) tokens_.skip_brackets();
    }
  }
  if (tokens_.error() || named) return type;
  if (base.empty()) {
    tokens_.fail(fmt::format("expected a type before {}", tokens_.named()), type_advice);
    return type;
  }
  const auto built = base.type();
  if (!built) {
    tokens_.fail(start, fmt::format("'{}' is not a type", words), type_advice);
    return type;
  }
  type.kind = built->kind;
  type.base = built->base;
  return type;
}

/// Behind '['. Past ']'.
std::string Declarations::bound() {
  std::string text;
  while (!tokens_.is("]") && !tokens_.at_end()) {
    if (tokens_.is("[") || tokens_.is("{") || tokens_.is("}") || tokens_.is(";")) break;
    if (!text.empty() && text.size() < limits::dof_type_name) text += ' ';
    if (text.size() < limits::dof_type_name) text += tokens_.now().text;
    tokens_.advance();
  }
  tokens_.expect("]", "the bound of an array", "write it as in char name[16]");
  return text;
}

void Declarations::suffixes(std::vector<Derivation>& into, std::size_t depth) {
  while (tokens_.is("[") || tokens_.is("(")) {
    Derivation step;
    if (tokens_.accept("[")) {
      step.kind = Derivation::Kind::array;
      step.bound = bound();
    } else {
      step.kind = Derivation::Kind::function;
      ParameterList list = parameters(depth + 1);
      step.variadic = list.variadic;
      for (DeclaredParameter& parameter : list.parameters)
        step.parameters.push_back(as_parameter(std::move(parameter.type)));
    }
    into.push_back(std::move(step));
    if (into.size() > limits::definition_derivations)
      tokens_.fail("this declarator has too many brackets", "use a typedef for a part of it");
  }
}

void Declarations::declarator(DeclaredParameter& into, std::size_t depth) {
  if (depth > limits::definition_nesting)
    return tokens_.fail(
        fmt::format("parentheses are nested more than {} deep", limits::definition_nesting),
        "use a typedef for a part of the type");
  std::vector<Derivation> pointers;
  while (tokens_.accept("*")) {
    Derivation pointer;
    while (tokens_.is_identifier() && qualifier(tokens_.now().text)) {
      add_qualifier(pointer.qualifiers, *qualifier(tokens_.now().text));
      tokens_.advance();
    }
    pointers.push_back(std::move(pointer));
    if (pointers.size() > limits::definition_derivations)
      return tokens_.fail("this declarator has too many stars", "use a typedef for a part of it");
  }
  std::vector<Derivation> here;
  const bool function =
      tokens_.is("(") && (tokens_.behind().text == ")" || is_type(tokens_.behind()));
  if (tokens_.is("(") && !function) {
    tokens_.advance();
    declarator(into, depth + 1);
    tokens_.expect(")", "a declarator in parentheses", "close it, as in int (*callback)(int)");
  } else if (tokens_.is_identifier()) {
    into.name = tokens_.now().text;
    into.at = tokens_.now().at;
    tokens_.advance();
  }
  suffixes(here, depth);
  auto& all = into.type.derivations;
  std::move(here.begin(), here.end(), std::back_inserter(all));
  std::move(pointers.rbegin(), pointers.rend(), std::back_inserter(all));
  if (all.size() > limits::definition_derivations)
    tokens_.fail("this declarator has too many parts", "use a typedef for a part of it");
}

DeclaredParameter Declarations::parameter(std::size_t depth) {
  DeclaredParameter out;
  out.at = tokens_.now().at;
  out.type = specifiers(false);
  declarator(out, depth);
  return out;
}

ParameterList Declarations::parameters(std::size_t depth) {
  ParameterList list;
  const Location start = tokens_.now().at;
  if (depth > limits::definition_nesting) {
    tokens_.fail(
        fmt::format("parentheses are nested more than {} deep", limits::definition_nesting),
        "use a typedef for a part of the type");
    return list;
  }
  tokens_.expect("(", "the name", "write its parameters, as in request__start(int id), or ()");
  if (tokens_.accept(")")) return list;
  for (;;) {
    if (tokens_.is("...")) {
      list.variadic = true;
      list.variadic_at = tokens_.now().at;
      tokens_.advance();
      break;
    }
    list.parameters.push_back(parameter(depth));
    if (tokens_.error()) return list;
    if (list.parameters.size() > limits::dof_arguments) {
      tokens_.fail(start, fmt::format("there are more than {} parameters", limits::dof_arguments),
                   "pass a pointer to a struct");
      return list;
    }
    if (!tokens_.accept(",")) break;
  }
  tokens_.expect(")", "the parameters", "separate them by commas and close the list");
  const auto is_void = [](const DeclaredParameter& one) {
    return one.type.kind == CType::Kind::empty && one.type.derivations.empty();
  };
  if (list.parameters.size() == 1 && !list.variadic && is_void(list.parameters.front()) &&
      list.parameters.front().name.empty()) {
    list.parameters.clear();
    return list;
  }
  for (const DeclaredParameter& one : list.parameters)
    if (is_void(one))
      tokens_.fail(one.at, "'void' with other parameters, or with a name",
                   "write (void) alone for no parameters; a pointer to anything is void *");
  return list;
}

namespace {

constexpr std::size_t max_typedef_derivations = 8;  // what is kept of each of many

/// What the map of typedefs holds of a type: bounded, whatever the file declares. A pointer to a
/// longer declarator is a pointer like any other.
CType meaning(CType type) {
  const auto is_function = [](const Derivation& one) {
    return one.kind == Derivation::Kind::function;
  };
  auto& all = type.derivations;
  if (!all.empty() && is_function(all.front())) return {};
  if (type.base.starts_with("__typeof") || type.base == "__attribute__") return {};
  if (all.size() <= max_typedef_derivations && std::ranges::none_of(all, is_function)) return type;
  CType pointer;
  pointer.kind = CType::Kind::empty;
  pointer.base = "void";
  pointer.derivations.emplace_back();
  return pointer;
}

}  // namespace

CType Declarations::resolved(CType type) const {
  const auto known = types_.find(type.base);
  if (known == types_.end() || known->second.type.base.empty()) return type;
  CType out = known->second.type;
  if (out.derivations.empty()) {
    for (const std::string_view one : {"const", "volatile"})
      if (type.qualifiers.find(one) != std::string::npos) add_qualifier(out.qualifiers, one);
  } else if (out.derivations.front().kind == Derivation::Kind::pointer) {
    out.derivations.front().qualifiers = type.qualifiers;
  }
  out.derivations.insert(out.derivations.begin(), type.derivations.begin(), type.derivations.end());
  const std::string text = spelling(as_parameter(out), Language::d);
  if (text.size() > limits::dof_type_name) return type;
  return reads_alike(spelling(as_parameter(type), Language::d), text) ? type : out;
}

void Declarations::define_type() {
  const CType base = specifiers(true);
  while (!tokens_.error()) {
    DeclaredParameter one;
    one.type = base;
    declarator(one, 0);
    if (tokens_.error()) return;
    CType::Kind kind = base.kind;
    if (!one.type.derivations.empty())
      kind = one.type.derivations.front().kind == Derivation::Kind::function
                 ? CType::Kind::function
                 : CType::Kind::integer;  // a pointer is passed as one; an array becomes one
    if (!one.name.empty()) types_[one.name] = {kind, meaning(resolved(one.type))};
    if (!tokens_.accept(",")) break;
  }
  tokens_.expect(";", "a typedef", "end it with ';'");
}

void Declarations::declaration() {
  while (tokens_.is("__extension__")) tokens_.advance();
  if (tokens_.is("typedef")) return define_type();
  const Location start = tokens_.now().at;
  std::string last;
  while (!tokens_.at_end()) {
    if (tokens_.accept(";")) return;
    if (tokens_.is("provider"))
      return tokens_.fail("missing ';' before 'provider'",
                          "end the declaration before it with ';'");
    if (tokens_.now().kind == Token::Kind::string && last == "extern")
      return tokens_.fail("extern \"C\" is C++", "give declarations of C");
    const bool body = tokens_.is("{") && last == ")";
    last = tokens_.now().text;
    if (!tokens_.is("{") && !tokens_.is("(") && !tokens_.is("[")) {
      tokens_.advance();
      continue;
    }
    if (last == "(") last = ")";
    tokens_.skip_brackets();
    if (body) return;  // of a function
  }
  tokens_.fail(start, "this declaration is not terminated", "end it with ';'");
}

}  // namespace vitrine::usdt
