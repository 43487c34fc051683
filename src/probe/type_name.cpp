#include "probe/type_name.hpp"

#include <charconv>

namespace vitrine::probe {
namespace {

/// "int32", "uint8"; "integer" where the operand does not tell its width.
std::string integer_name(std::string_view operand) {
  const bool is_signed = operand.starts_with('-');
  if (is_signed) operand.remove_prefix(1);
  unsigned bytes = 0;
  const auto [end, error] = std::from_chars(operand.data(), operand.data() + operand.size(), bytes);
  if (error != std::errc() || bytes > 16) return "integer";
  return (is_signed ? "int" : "uint") + std::to_string(8 * bytes);
}

std::string floating_name(std::string_view operand) {
  if (operand.starts_with("4f@")) return "float";
  if (operand.starts_with("8f@")) return "double";
  return operand.starts_with("1") ? "long double" : "floating";
}

}  // namespace

std::string type_name(const ArgumentType& type, std::string_view operand) {
  if (!type.type.empty()) return type.type;
  switch (type.kind) {
    case ValueKind::integer:
      return integer_name(operand);
    case ValueKind::floating:
      return floating_name(operand);
    case ValueKind::boolean:
      return "bool";
    case ValueKind::pointer:
      return "pointer";
    case ValueKind::c_string:
    case ValueKind::string_view:
      return "string";
    case ValueKind::enumeration:
      return "enum";
    case ValueKind::bytes:
      return "bytes";
  }
  return {};
}

std::string_view protocol_name(SiteUse use) {
  switch (use) {
    case SiteUse::enabled_operand:
      return "operand";
    case SiteUse::enabled_register:
      return "register";
    case SiteUse::enabled_pointer:
      return "pointer";
    case SiteUse::fire:
      break;
  }
  return {};
}

}  // namespace vitrine::probe
