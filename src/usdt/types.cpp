#include "usdt/types.hpp"

#include <algorithm>
#include <array>

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

}  // namespace vitrine::usdt
