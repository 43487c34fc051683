#include "usdt/c_type.hpp"

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

}  // namespace vitrine::usdt
