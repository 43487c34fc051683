// A parameter's place at the first instruction of a function is what DWARF records, where it names a
// register there: compilers pass what only they call (static functions, clones) as they like. Code
// that is not optimised moves its parameters to the stack first, which is where DWARF has them;
// then the order of the ABI counts. A parameter that has a constant instead, or no place at the first
// instruction, is not passed: what its register has is of something else.
#include "symbol/signature.hpp"

#include <dwarf.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/limits.hpp"
#include "symbol/demangle.hpp"

namespace vitrine::symbol {
namespace {

constexpr std::size_t max_parameters = 64;
constexpr std::size_t max_type_links = 64;  // of typedefs and qualifiers
constexpr std::size_t max_type_text = 200;
constexpr std::size_t max_spelled_depth = 8;
constexpr std::size_t max_members = 4096;  // looked at to classify one structure
constexpr std::size_t max_type_enumerators = 256;
constexpr std::uint32_t word_bytes = 8;

std::optional<Dwarf_Die> type_of_die(Dwarf_Die& die) {
  Dwarf_Attribute found;
  Dwarf_Die type;
  if (dwarf_attr_integrate(&die, DW_AT_type, &found) == nullptr ||
      dwarf_formref_die(&found, &type) == nullptr)
    return std::nullopt;
  return type;
}

bool is_wrapping(int tag) {
  switch (tag) {
    case DW_TAG_typedef:
    case DW_TAG_const_type:
    case DW_TAG_volatile_type:
    case DW_TAG_restrict_type:
    case DW_TAG_atomic_type:
    case DW_TAG_immutable_type:
      return true;
    default:
      return false;
  }
}

/// Without typedefs and qualifiers; nothing: void, or too many of them. `is_const`: one of them.
std::optional<Dwarf_Die> bare_type(std::optional<Dwarf_Die> type, bool* is_const = nullptr) {
  for (std::size_t i = 0; type && i < max_type_links; ++i) {
    const int tag = dwarf_tag(&*type);
    if (!is_wrapping(tag)) return type;
    if (tag == DW_TAG_const_type && is_const != nullptr) *is_const = true;
    type = type_of_die(*type);
  }
  return std::nullopt;
}

std::string name_attribute(Dwarf_Die& die) {
  Dwarf_Attribute found;
  if (dwarf_attr_integrate(&die, DW_AT_name, &found) == nullptr) return {};
  const char* name = dwarf_formstring(&found);
  return name == nullptr ? std::string() : std::string(name).substr(0, max_type_text);
}

bool has_flag(Dwarf_Die& die, unsigned attribute) {
  Dwarf_Attribute found;
  bool flag = false;
  return dwarf_attr_integrate(&die, attribute, &found) != nullptr &&
         dwarf_formflag(&found, &flag) == 0 && flag;
}

std::optional<std::uint64_t> number_attribute(Dwarf_Die& die, unsigned attribute) {
  Dwarf_Attribute found;
  Dwarf_Word value = 0;
  if (dwarf_attr_integrate(&die, attribute, &found) == nullptr ||
      dwarf_formudata(&found, &value) != 0)
    return std::nullopt;
  return value;
}

/// The constant of a value of `bytes`. Forms of a fixed size have no sign: gcc writes what is not
/// negative by them, clang any value by forms that have one.
std::optional<std::uint64_t> constant_attribute(Dwarf_Die& die, std::size_t bytes, bool is_signed) {
  Dwarf_Attribute found;
  if (dwarf_attr(&die, DW_AT_const_value, &found) == nullptr) return std::nullopt;
  Dwarf_Word value = 0;
  Dwarf_Sword number = 0;
  Dwarf_Block block;
  const unsigned form = dwarf_whatform(&found);
  if (form == DW_FORM_sdata || form == DW_FORM_implicit_const) {
    if (dwarf_formsdata(&found, &number) != 0) return std::nullopt;
    value = static_cast<Dwarf_Word>(number);
  } else if (dwarf_formblock(&found, &block) == 0) {
    if (block.length == 0 || block.length > word_bytes) return std::nullopt;
    for (std::size_t i = 0; i < block.length; ++i) value |= Dwarf_Word{block.data[i]} << 8 * i;
  } else if (dwarf_formudata(&found, &value) != 0) {
    return std::nullopt;
  }
  if (bytes == 0 || bytes >= word_bytes) return value;
  const unsigned unused = 64 - 8 * static_cast<unsigned>(bytes);
  return is_signed
             ? static_cast<std::uint64_t>(static_cast<std::int64_t>(value << unused) >> unused)
             : value << unused >> unused;
}

/// How types are written in the language of a unit.
struct Spelling {
  bool is_c = false;  ///< structures have their keyword

  std::string text(std::optional<Dwarf_Die> type, std::size_t depth = 0) const {
    if (!type) return "void";
    if (depth > max_spelled_depth) return "…";
    const int tag = dwarf_tag(&*type);
    const auto inner = [&] { return text(type_of_die(*type), depth + 1); };
    const auto pointing = [&](const char* sign) {
      std::string target = inner();
      if (const std::size_t at = target.find("(*)"); at != target.npos)
        return target;  // a pointer to a function already has its sign
      return target + (target.ends_with('*') ? "" : " ") + sign;
    };
    switch (tag) {
      case DW_TAG_pointer_type:
        return pointing("*");
      case DW_TAG_reference_type:
        return pointing("&");
      case DW_TAG_rvalue_reference_type:
        return pointing("&&");
      case DW_TAG_const_type:
      case DW_TAG_volatile_type: {
        const std::string word = tag == DW_TAG_const_type ? "const" : "volatile";
        const std::string of = inner();
        return of.ends_with('*') ? of + ' ' + word : word + ' ' + of;
      }
      case DW_TAG_restrict_type:
      case DW_TAG_atomic_type:
      case DW_TAG_immutable_type:
        return inner();
      case DW_TAG_array_type:
        return inner() + "[]";
      case DW_TAG_subroutine_type:
        return inner() + " (*)()";
      default:
        break;
    }
    const std::string name = name_attribute(*type);
    const char* keyword = tag == DW_TAG_structure_type     ? "struct"
                          : tag == DW_TAG_class_type       ? "class"
                          : tag == DW_TAG_union_type       ? "union"
                          : tag == DW_TAG_enumeration_type ? "enum"
                                                           : "";
    if (name.empty()) return *keyword == '\0' ? "?" : keyword;
    return is_c && *keyword != '\0' ? std::string(keyword) + ' ' + name : name;
  }
};

// How structures are passed: x86-64 by the class of each of two words, aarch64 by their size, and
// by vector registers where all members are alike and floating.

struct Classes {
  std::array<bool, 2> integer{}, vector{};
  bool memory = false;           ///< x86-64: not in registers
  bool all_floating = true;      ///< aarch64
  std::uint32_t floats = 0;      ///< of that
  std::uint32_t float_size = 0;  ///< of each of them
  std::size_t left = max_members;
};

void classify(std::optional<Dwarf_Die> type, std::uint64_t at, std::size_t depth, Classes& into) {
  type = bare_type(type);
  const bool is_too_much = into.left == 0 || depth > max_spelled_depth;
  if (into.left > 0) --into.left;  // what is not looked into counts: arrays may have 2^64 elements
  if (!type || is_too_much) {
    into.all_floating = false;
    if (at < 2 * word_bytes) into.integer[at / word_bytes] = true;
    return;
  }
  Dwarf_Word size = 0;
  if (dwarf_aggregate_size(&*type, &size) != 0) size = word_bytes;
  const auto each_word = [&](std::array<bool, 2>& marks) {
    for (std::uint64_t byte = at; byte < at + std::max<Dwarf_Word>(size, 1); byte += 1)
      if (byte < 2 * word_bytes)
        marks[byte / word_bytes] = true;
      else
        break;
  };
  const int tag = dwarf_tag(&*type);
  if (tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type) {
    Dwarf_Die child;
    if (dwarf_child(&*type, &child) != 0) return;
    do {
      const int what = dwarf_tag(&child);
      if (what != DW_TAG_member && what != DW_TAG_inheritance) continue;
      if (has_flag(child, DW_AT_external) || has_flag(child, DW_AT_declaration)) continue;
      std::uint64_t offset = number_attribute(child, DW_AT_data_member_location).value_or(0);
      if (const auto bits = number_attribute(child, DW_AT_data_bit_offset)) offset = *bits / 8;
      classify(type_of_die(child), at + offset, depth + 1, into);
    } while (into.left > 0 && dwarf_siblingof(&child, &child) == 0);
    return;
  }
  if (tag == DW_TAG_array_type) {
    const auto element = bare_type(type_of_die(*type));
    Dwarf_Word one = 0;
    Dwarf_Die copy = element.value_or(Dwarf_Die{});
    if (!element || dwarf_aggregate_size(&copy, &one) != 0 || one == 0) {
      into.all_floating = false;
      return each_word(into.integer);
    }
    for (std::uint64_t offset = 0; offset < size && into.left > 0; offset += one)
      classify(element, at + offset, depth + 1, into);
    return;
  }
  const auto encoding = number_attribute(*type, DW_AT_encoding).value_or(0);
  if (tag == DW_TAG_base_type && encoding == DW_ATE_float) {
    if (size > word_bytes) into.memory = true;  // x87
    if (into.float_size != 0 && into.float_size != size) into.all_floating = false;
    into.float_size = static_cast<std::uint32_t>(size);
    ++into.floats;
    return each_word(into.vector);
  }
  into.all_floating = false;
  each_word(into.integer);
}

bool is_of_class(Dwarf_Die& type, const char* name) {
  return name_attribute(type).starts_with(name);
}

/// Whether a class has what makes its callers pass its address: it is not copied bit by bit.
bool is_passed_by_address(Dwarf_Die& type) {
  constexpr std::uint64_t by_reference = 4, by_value = 5;  // DW_CC_pass_by_…
  const auto convention = number_attribute(type, DW_AT_calling_convention);
  if (convention == by_reference) return true;
  if (convention == by_value) return false;
  Dwarf_Die child;
  if (dwarf_child(&type, &child) != 0) return false;
  std::size_t left = max_members;
  do {
    if (dwarf_tag(&child) == DW_TAG_subprogram && !has_flag(child, DW_AT_defaulted) &&
        name_attribute(child).starts_with('~'))
      return true;
  } while (--left > 0 && dwarf_siblingof(&child, &child) == 0);
  return false;
}

/// Text by two words: std::string_view, and Go's and Rust's strings.
bool take_text(Dwarf_Die& type, FunctionParameter& into) {
  const bool is_text = is_of_class(type, "basic_string_view<char,") ||
                       name_attribute(type) == "string" || name_attribute(type) == "&str";
  Dwarf_Die child;
  if (!is_text || into.size != 2 * word_bytes || dwarf_child(&type, &child) != 0) return false;
  std::size_t left = max_members;
  do {
    if (dwarf_tag(&child) != DW_TAG_member) continue;
    const auto member = bare_type(type_of_die(child));
    Dwarf_Die copy = member.value_or(Dwarf_Die{});
    if (!member || dwarf_tag(&copy) != DW_TAG_pointer_type) continue;
    const std::uint64_t at = number_attribute(child, DW_AT_data_member_location).value_or(0);
    into.kind = ParameterKind::text;
    into.address_word = at == 0 ? 0 : 1;
    return true;
  } while (--left > 0 && dwarf_siblingof(&child, &child) == 0);
  return false;
}

void take_aggregate(Dwarf_Die& type, Machine machine, FunctionParameter& into) {
  into.kind = ParameterKind::aggregate;
  into.is_aligned = number_attribute(type, DW_AT_alignment).value_or(0) >= 2 * word_bytes;
  into.words = static_cast<std::uint8_t>(
      std::min<std::uint32_t>((into.size + word_bytes - 1) / word_bytes, 255));
  if (is_passed_by_address(type)) {
    into.is_address = true;
    into.words = 1;
    return;
  }
  if (machine == Machine::i386) {
    into.in_memory = true;
    return;
  }
  Classes classes;
  classify(type, 0, 0, classes);
  constexpr std::uint32_t max_alike = 4;
  if (machine == Machine::aarch64) {
    if (classes.all_floating && classes.floats >= 1 && classes.floats <= max_alike) {
      into.vectors = static_cast<std::uint8_t>(classes.floats);
      into.words = 0;
    } else if (into.size > 2 * word_bytes) {
      into.is_address = true;
      into.words = 1;
    }
  } else if (classes.memory || into.size > 2 * word_bytes) {
    into.in_memory = true;
  } else {
    into.words = into.vectors = 0;
    for (std::uint32_t i = 0; i < into.size; i += word_bytes) {
      const bool is_integer = classes.integer[i / word_bytes];
      ++(is_integer || !classes.vector[i / word_bytes] ? into.words : into.vectors);
    }
    // An empty class has a byte, which no compiler passes in a register (g++ passes it nowhere).
    if (into.size <= 1 && classes.left == max_members - 1) into.words = 0;
  }
  if (!into.in_memory && !into.is_address) take_text(type, into);
}

void take_enumerators(Dwarf_Die& type, FunctionParameter& into) {
  Dwarf_Die child;
  if (dwarf_child(&type, &child) != 0) return;
  do {
    if (dwarf_tag(&child) != DW_TAG_enumerator) continue;
    const auto value = constant_attribute(child, into.size, into.is_signed);
    if (!value) continue;
    into.enumerators.push_back({static_cast<std::int64_t>(*value), name_attribute(child)});
  } while (into.enumerators.size() < max_type_enumerators && dwarf_siblingof(&child, &child) == 0);
}

void take_base(Dwarf_Die& type, Machine machine, FunctionParameter& into) {
  const auto encoding = number_attribute(type, DW_AT_encoding).value_or(DW_ATE_signed);
  switch (encoding) {
    case DW_ATE_boolean:
      into.kind = ParameterKind::boolean;
      break;
    case DW_ATE_signed:
    case DW_ATE_signed_char:
      into.is_signed = true;
      break;
    case DW_ATE_float:
    case DW_ATE_imaginary_float:
      into.kind = ParameterKind::floating;
      into.words = 0;
      into.vectors = 1;
      if (machine == Machine::x86_64 && into.size > word_bytes && into.size != 16) {
        into.in_memory = true;
      } else if (machine == Machine::x86_64 && name_attribute(type) == "long double") {
        into.in_memory = into.is_aligned = true;
        into.words = 2;
      }
      return;
    case DW_ATE_complex_float:
      into.kind = ParameterKind::aggregate;
      into.words = 0;
      into.vectors = into.size > word_bytes ? 2 : 1;
      return;
    default:
      break;
  }
  if (into.size > word_bytes) {
    into.kind = ParameterKind::aggregate;
    into.words = 2;
    into.is_aligned = machine == Machine::aarch64;
  }
}

bool is_constant_char(Dwarf_Die& pointer) {
  bool is_const = false;
  auto target = bare_type(type_of_die(pointer), &is_const);
  return is_const && target && dwarf_tag(&*target) == DW_TAG_base_type &&
         name_attribute(*target) == "char";
}

void take_type(std::optional<Dwarf_Die> written, Machine machine, const Spelling& spelling,
               FunctionParameter& into) {
  into.type = spelling.text(written).substr(0, max_type_text);
  auto type = bare_type(written);
  if (!type) return;
  Dwarf_Word size = 0;
  if (dwarf_aggregate_size(&*type, &size) == 0 && size < UINT32_MAX)
    into.size = static_cast<std::uint32_t>(size);
  const std::uint32_t pointer_bytes = machine == Machine::i386 ? 4 : word_bytes;
  switch (dwarf_tag(&*type)) {
    case DW_TAG_base_type:
      return take_base(*type, machine, into);
    case DW_TAG_enumeration_type: {
      into.kind = ParameterKind::enumeration;
      auto under = bare_type(type_of_die(*type));
      const auto encoding = under ? number_attribute(*under, DW_AT_encoding).value_or(0) : 0;
      into.is_signed = encoding == DW_ATE_signed || encoding == DW_ATE_signed_char;
      if (into.size == 0 || into.size > word_bytes) into.size = 4;
      return take_enumerators(*type, into);
    }
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
    case DW_TAG_array_type:
      return take_aggregate(*type, machine, into);
    case DW_TAG_ptr_to_member_type: {
      auto target = bare_type(type_of_die(*type));
      if (target && dwarf_tag(&*target) == DW_TAG_subroutine_type) {
        into.kind = ParameterKind::aggregate;
        into.words = 2;
      }
      into.size = word_bytes;
      return;
    }
    default:
      into.kind = is_constant_char(*type) ? ParameterKind::c_string : ParameterKind::pointer;
      into.size = pointer_bytes;
  }
}

/// Whether a location of the first instruction shows that callers pass the parameter: it has a place
/// in memory, or is what a register had. Else it has a value and no place.
bool is_passed(const Dwarf_Op* steps, std::size_t count) {
  if (count == 0) return false;
  const bool is_entry_value =
      steps[0].atom == DW_OP_entry_value || steps[0].atom == DW_OP_GNU_entry_value;
  if (is_entry_value) return count == 2 && steps[1].atom == DW_OP_stack_value;
  return steps[0].atom != DW_OP_piece && std::none_of(steps, steps + count, [](const Dwarf_Op& op) {
           return op.atom == DW_OP_stack_value || op.atom == DW_OP_implicit_value ||
                  op.atom == DW_OP_implicit_pointer || op.atom == DW_OP_GNU_implicit_pointer;
         });
}

/// Where it is at the first instruction: in registers, or by the convention of calls; or which
/// constant it is.
void take_place(Dwarf_Die& die, Address entry, Machine machine, bool by_convention,
                FunctionParameter& into) {
  Dwarf_Attribute location;
  Dwarf_Op* steps = nullptr;
  std::size_t count = 0;
  if (const auto value = constant_attribute(die, into.size, into.is_signed)) {
    into.constant = value;
    return;
  }
  const bool has_location = dwarf_attr(&die, DW_AT_location, &location) != nullptr;
  const int found = has_location ? dwarf_getlocation_addr(&location, entry, &steps, &count, 1) : 0;
  std::vector<std::uint8_t> registers;
  bool is_plain = found > 0 && count > 0;
  for (std::size_t i = 0; is_plain && i < count; ++i) {
    const unsigned atom = steps[i].atom;
    if (atom >= DW_OP_reg0 && atom <= DW_OP_reg31)
      registers.push_back(static_cast<std::uint8_t>(atom - DW_OP_reg0));
    else if (atom == DW_OP_regx && steps[i].number < 128)
      registers.push_back(static_cast<std::uint8_t>(steps[i].number));
    else if (atom != DW_OP_piece || registers.empty())
      is_plain = false;
  }
  if (is_plain && !registers.empty()) {
    into.registers = std::move(registers);
    return;
  }
  // A structure at an address that is in a register of its own.
  const unsigned stack_pointer = machine == Machine::aarch64 ? 31 : 7, frame = 6;
  if (found > 0 && count == 1 && steps[0].atom >= DW_OP_breg0 && steps[0].atom <= DW_OP_breg31 &&
      steps[0].number == 0 && into.kind == ParameterKind::aggregate) {
    const unsigned base = steps[0].atom - DW_OP_breg0;
    const bool is_frame =
        base == stack_pointer || (machine != Machine::aarch64 && base == frame) || base == 29;
    if (!is_frame) {
      into.is_address = true;
      into.in_memory = false;
      into.words = 1;
      into.vectors = 0;
      into.registers = {static_cast<std::uint8_t>(base)};
      return;
    }
  }
  into.is_lost = !by_convention || found <= 0 || !is_passed(steps, count);
}

/// Whether its callers follow the C ABI of the machine.
bool has_c_abi(int language) {
  switch (language) {
    case DW_LANG_Go:
    case DW_LANG_Rust:
    case DW_LANG_Swift:
    case DW_LANG_Haskell:
    case DW_LANG_OCaml:
    case DW_LANG_D:
      return false;
    default:
      return true;
  }
}

bool is_c_language(int language) {
  return language == DW_LANG_C || language == DW_LANG_C89 || language == DW_LANG_C99 ||
         language == DW_LANG_C11;
}

/// gcc's copies of a function for some of its callers, which leave out and change parameters.
bool is_clone(const std::string& name) {
  return name.find(".isra.") != name.npos || name.find(".constprop.") != name.npos ||
         name.find(".part.") != name.npos;
}

/// Compilers that put a part of a function elsewhere give its ranges alone: it begins with the first.
std::optional<Dwarf_Addr> entry_of(Dwarf_Die& function) {
  Dwarf_Addr entry = 0, base = 0, end = 0;
  if (dwarf_entrypc(&function, &entry) == 0) return entry;
  if (dwarf_ranges(&function, 0, &base, &entry, &end) > 0) return entry;
  return std::nullopt;
}

/// As describe_function(), from what may turn out to be damaged.
void take_description(DwarfInfo& dwarf, Machine machine, FoundFunction& into) {
  auto function = dwarf.function_around(into.address);
  if (!function || entry_of(*function) != into.address) return;
  const Dwarf_Addr entry = into.address;
  Dwarf_Die unit;
  if (dwarf_diecu(&*function, &unit, nullptr, nullptr) == nullptr) return;
  const int language = dwarf_srclang(&unit);
  const Spelling spelling{is_c_language(language)};
  const bool by_convention = has_c_abi(language) && !is_clone(into.name);
  into.is_described = true;
  into.is_go = into.is_go || language == DW_LANG_Go;
  const auto add_from = [&](Dwarf_Die& parent, bool has_places) {
    Dwarf_Die child;
    if (dwarf_child(&parent, &child) != 0) return;
    do {
      if (dwarf_tag(&child) != DW_TAG_formal_parameter) continue;
      if (language == DW_LANG_Go && has_flag(child, DW_AT_variable_parameter)) continue;
      FunctionParameter parameter;
      parameter.name = name_attribute(child);
      take_type(type_of_die(child), machine, spelling, parameter);
      if (has_places)
        take_place(child, entry, machine, by_convention, parameter);
      else
        parameter.is_lost = !by_convention;
      into.parameters.push_back(std::move(parameter));
    } while (into.parameters.size() < max_parameters && dwarf_siblingof(&child, &child) == 0);
  };
  add_from(*function, true);
  Dwarf_Attribute found;
  Dwarf_Die origin;
  if (into.parameters.empty() && dwarf_attr(&*function, DW_AT_abstract_origin, &found) != nullptr &&
      dwarf_formref_die(&found, &origin) != nullptr)
    add_from(origin, false);
  if (auto type = type_of_die(*function)) {
    FunctionParameter result;
    result.name = "return";
    take_type(type, machine, spelling, result);
    result.is_lost = !has_c_abi(language) && result.kind == ParameterKind::aggregate;
    if (bare_type(type)) into.result = std::move(result);
  }
}

}  // namespace

void describe_function(DwarfInfo& dwarf, Machine machine, FoundFunction& into) {
  FoundFunction described = into;
  take_description(dwarf, machine, described);
  if (!dwarf.is_damaged()) into = std::move(described);
}

bool is_inlined_everywhere(DwarfInfo& dwarf, const std::string& name) {
  const std::string last = name.substr(name.rfind(':') + 1);
  bool is_inlined = false;
  for (Dwarf_Die top : dwarf.units()) {
    std::vector<Dwarf_Die> levels(1);
    if (top.cu == nullptr || dwarf_child(&top, &levels.back()) != 0) continue;
    while (!levels.empty()) {
      Dwarf_Die& die = levels.back();
      const int tag = dwarf_tag(&die);
      if (tag == DW_TAG_subprogram) {
        Dwarf_Attribute found;
        const auto inlined = number_attribute(die, DW_AT_inline);
        const char* linkage = dwarf_attr_integrate(&die, DW_AT_linkage_name, &found) != nullptr
                                  ? dwarf_formstring(&found)
                                  : nullptr;
        const std::string its = name_attribute(die);
        const auto how = inlined.value_or(DW_INL_not_inlined);
        if ((how == DW_INL_inlined || how == DW_INL_declared_inlined) && its == last &&
            (name == last || (linkage != nullptr && qualified_name(demangled(linkage)) == name)))
          is_inlined = true;
      }
      const bool is_scope = tag == DW_TAG_namespace || tag == DW_TAG_structure_type ||
                            tag == DW_TAG_class_type || tag == DW_TAG_module;
      Dwarf_Die inner;
      if (is_scope && levels.size() < limits::dwarf_depth && dwarf_child(&die, &inner) == 0) {
        levels.push_back(inner);
        continue;
      }
      while (!levels.empty() && dwarf_siblingof(&levels.back(), &levels.back()) != 0)
        levels.pop_back();
    }
    if (is_inlined) break;
  }
  return is_inlined && !dwarf.is_damaged();
}

}  // namespace vitrine::symbol
