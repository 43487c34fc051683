#include "probe/types.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <string>
#include <vector>

#include "base/memory.hpp"

namespace vitrine::probe {
namespace {

/// "int32", "uint8"; "integer" where the operand has no width.
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

namespace {

/// As C's grammar of types needs them: names, and single characters.
std::vector<std::string_view> tokens_of(std::string_view text) {
  std::vector<std::string_view> tokens;
  const auto is_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i + 1;
    if (is_name(text[i]))
      while (end < text.size() && is_name(text[end])) ++end;
    if (text[i] != ' ' && text[i] != '\t') tokens.push_back(text.substr(i, end - i));
    i = end;
  }
  return tokens;
}

bool is_qualifier(std::string_view token) {
  constexpr std::array qualifiers{"const",        "volatile", "restrict", "__restrict",
                                  "__restrict__", "_Atomic",  "userland", "register"};
  return std::find(qualifiers.begin(), qualifiers.end(), token) != qualifiers.end();
}

/// A name of Unix or of D, with the same meaning in every program. 0: as a pointer.
struct Named {
  std::string_view name;
  std::uint8_t size;
  bool is_signed;
};
constexpr Named named_types[] = {
    {"int8_t", 1, true},     {"int16_t", 2, true},       {"int32_t", 4, true},
    {"int64_t", 8, true},    {"uint8_t", 1, false},      {"uint16_t", 2, false},
    {"uint32_t", 4, false},  {"uint64_t", 8, false},     {"u_int8_t", 1, false},
    {"u_int16_t", 2, false}, {"u_int32_t", 4, false},    {"u_int64_t", 8, false},
    {"intmax_t", 8, true},   {"uintmax_t", 8, false},    {"intptr_t", 0, true},
    {"uintptr_t", 0, false}, {"size_t", 0, false},       {"ssize_t", 0, true},
    {"ptrdiff_t", 0, true},  {"pid_t", 4, true},         {"uid_t", 4, false},
    {"gid_t", 4, false},     {"mode_t", 4, false},       {"id_t", 4, false},
    {"key_t", 4, true},      {"socklen_t", 4, false},    {"in_addr_t", 4, false},
    {"in_port_t", 2, false}, {"uchar_t", 1, false},      {"ushort_t", 2, false},
    {"uint_t", 4, false},    {"ulong_t", 0, false},      {"u_char", 1, false},
    {"u_short", 2, false},   {"u_int", 4, false},        {"u_long", 0, false},
    {"ushort", 2, false},    {"uint", 4, false},         {"ulong", 0, false},
    {"longlong_t", 8, true}, {"hrtime_t", 8, true},      {"u_longlong_t", 8, false},
    {"pthread_t", 0, false}, {"processorid_t", 4, true}, {"char16_t", 2, false},
    {"char32_t", 4, false},  {"off64_t", 8, true},       {"errno_t", 4, true},
};

/// Those whose width on a 32-bit machine depends on how the program was compiled.
constexpr std::array wide_where_lp64{"off_t", "time_t", "suseconds_t", "blkcnt_t"};

std::optional<CType> named_type(std::string_view name, Machine machine) {
  const std::uint8_t word = is_ilp32(machine) ? 4 : 8;
  for (const Named& one : named_types)
    if (one.name == name)
      return CType{one.size == 0 ? word : one.size, one.is_signed, ValueKind::integer};
  if (word == 8 &&
      std::find(wide_where_lp64.begin(), wide_where_lp64.end(), name) != wide_where_lp64.end())
    return CType{8, true, ValueKind::integer};
  if (name == "ino_t" && word == 8) return CType{8, false, ValueKind::integer};
  if (name == "wchar_t") return CType{4, machine != Machine::aarch64, ValueKind::integer};
  return std::nullopt;
}

/// "unsigned long int", in any order.
std::optional<CType> arithmetic_type(const std::vector<std::string_view>& words, Machine machine) {
  int longs = 0, shorts = 0, chars = 0, ints = 0, floats = 0, doubles = 0, wides = 0;
  bool is_unsigned = false, is_signed = false;
  for (const std::string_view word : words) {
    if (word == "unsigned")
      is_unsigned = true;
    else if (word == "signed")
      is_signed = true;
    else if (word == "long")
      ++longs;
    else if (word == "short")
      ++shorts;
    else if (word == "char")
      ++chars;
    else if (word == "int")
      ++ints;
    else if (word == "float")
      ++floats;
    else if (word == "double")
      ++doubles;
    else if (word == "__int128")
      ++wides;
    else
      return std::nullopt;
  }
  const auto floating = [](std::uint8_t size) { return CType{size, true, ValueKind::floating}; };
  const auto integer = [&](std::uint8_t size) {
    return CType{size, !is_unsigned, ValueKind::integer};
  };
  if (floats != 0) return floating(4);
  if (doubles != 0 && longs == 0) return floating(8);
  if (doubles != 0) return floating(machine == Machine::aarch64 ? 16 : 10);
  if (wides != 0) return integer(16);
  if (shorts != 0) return integer(2);
  if (chars != 0) {  // of its own, char has the machine's sign
    const bool has_sign = is_signed || (!is_unsigned && machine != Machine::aarch64);
    return CType{1, has_sign, ValueKind::integer};
  }
  if (longs > 1) return integer(8);
  if (longs == 1) return integer(is_ilp32(machine) ? 4 : 8);
  if (ints != 0 || is_unsigned || is_signed) return integer(4);
  return std::nullopt;
}

}  // namespace

bool is_ilp32(Machine machine) {
  return machine == Machine::i386 || machine == Machine::arm;
}

std::optional<CType> c_type(std::string_view spelling, Machine machine) {
  std::vector<std::string_view> words;
  std::size_t stars = 0;
  bool declarator = false;  // of an array or a function
  for (const std::string_view token : tokens_of(spelling)) {
    if (is_qualifier(token)) continue;
    if (token == "{" || token == ".") return std::nullopt;
    if (token == "[" || token == "(") declarator = true;
    if (token == "*") ++stars;
    if (!declarator && token != "*") words.push_back(token);
  }
  if (words.empty()) return std::nullopt;
  const CType pointer{static_cast<std::uint8_t>(is_ilp32(machine) ? 4 : 8), false,
                      ValueKind::pointer};
  const CType text{pointer.size, false, ValueKind::c_string};
  const bool is_char = words.size() == 1 && words[0] == "char";
  if (declarator) {
    const bool is_function = spelling.find('(') != spelling.npos;
    return is_char && stars == 0 && !is_function ? text : pointer;
  }
  if (stars != 0) return is_char && stars == 1 ? text : pointer;
  if (words[0] == "struct" || words[0] == "union") return std::nullopt;
  // Enumerations without negative members are unsigned; those that have some are not many.
  if (words[0] == "enum") return CType{4, true, ValueKind::integer};
  if (words.size() == 1) {
    if (words[0] == "string") return text;
    if (words[0] == "bool" || words[0] == "_Bool") return CType{1, false, ValueKind::boolean};
    if (words[0] == "caddr_t") return pointer;
    if (const auto named = named_type(words[0], machine)) return named;
  }
  return arithmetic_type(words, machine);
}

namespace {

/// What of a machine's calls matters.
struct Convention {
  std::size_t registers = 0;         ///< of integers and pointers
  std::size_t vector_registers = 0;  ///< of floating-point numbers
  std::uint64_t slot = 8;            ///< bytes of the stack that an argument takes at least
};

Convention convention_of(Machine machine) {
  if (machine == Machine::x86_64) return {6, 8, 8};
  if (machine == Machine::aarch64) return {8, 8, 8};
  return {0, 0, 4};
}

/// Where one passed argument is.
struct Place {
  enum class Kind : std::uint8_t { integer_register, vector_register, stack, unknown };
  Kind kind = Kind::unknown;
  std::uint64_t at = 0;  ///< number of the register, or bytes from the stack pointer
  std::string reason;    ///< of unknown
};

constexpr std::string_view unknown_mark = "? ";  // argument.cpp refuses what begins with it

class Caller {
 public:
  Caller(Machine machine, bool return_address)
      : machine_(machine),
        convention_(convention_of(machine)),
        stack_(return_address && machine != Machine::aarch64 ? convention_.slot : 0) {}

  Place place(const std::string& spelling, const std::optional<CType>& type) {
    if (!lost_.empty())
      return unknown(fmt::format(
          "its location is unknown, because the location of \"{}\" before it is unknown", lost_));
    if (!type || type->size > 8) {
      const bool is_wide = type.has_value();
      if (is_wide && type->kind == ValueKind::floating) return wide_float();
      lost_ = spelling;
      return unknown(
          is_wide
              ? fmt::format("\"{}\" is too large to be evaluated", spelling)
              : fmt::format("only the program's headers define location and size of \"{}\": pass a "
                            "pointer or a number",
                            spelling));
    }
    const bool is_float = type->kind == ValueKind::floating;
    if (is_float && vectors_ < convention_.vector_registers)
      return {Place::Kind::vector_register, vectors_++, {}};
    if (!is_float && integers_ < convention_.registers)
      return {Place::Kind::integer_register, integers_++, {}};
    return on_stack(type->size, convention_.slot);
  }

 private:
  /// A long double: of x87 on the stack, else in a vector register.
  Place wide_float() {
    if (machine_ == Machine::i386) return on_stack(12, 4);
    if (machine_ == Machine::x86_64) return on_stack(16, 16);
    if (vectors_ < convention_.vector_registers)
      return {Place::Kind::vector_register, vectors_++, {}};
    return on_stack(16, 16);
  }

  /// Alignments are those of the stack before the call: a return address comes on top.
  Place on_stack(std::uint64_t size, std::uint64_t alignment) {
    passed_ = align_up(passed_, alignment);
    Place place{Place::Kind::stack, stack_ + passed_, {}};
    passed_ += align_up(size, convention_.slot);
    return place;
  }

  static Place unknown(std::string reason) { return {Place::Kind::unknown, 0, std::move(reason)}; }

  Machine machine_;
  Convention convention_;
  std::uint64_t stack_;       ///< what lies on top of the arguments
  std::uint64_t passed_ = 0;  ///< bytes of arguments on the stack
  std::size_t integers_ = 0;
  std::size_t vectors_ = 0;
  std::string lost_;  ///< the type behind which no place is known
};

std::string register_name(Machine machine, std::uint64_t number, std::uint8_t size) {
  if (machine == Machine::aarch64) return fmt::format("{}{}", size > 4 ? 'x' : 'w', number);
  constexpr std::array<std::array<std::string_view, 4>, 6> names{{{"rdi", "edi", "di", "dil"},
                                                                  {"rsi", "esi", "si", "sil"},
                                                                  {"rdx", "edx", "dx", "dl"},
                                                                  {"rcx", "ecx", "cx", "cl"},
                                                                  {"r8", "r8d", "r8w", "r8b"},
                                                                  {"r9", "r9d", "r9w", "r9b"}}};
  const std::size_t width = size == 8 ? 0 : size == 4 ? 1 : size == 2 ? 2 : 3;
  return fmt::format("%{}", names.at(number)[width]);
}

std::string vector_name(Machine machine, std::uint64_t number, std::uint8_t size) {
  if (machine != Machine::aarch64) return fmt::format("%xmm{}", number);
  return fmt::format("{}{}", size == 4 ? 's' : size == 8 ? 'd' : 'q', number);
}

std::string stack_place(Machine machine, std::uint64_t offset) {
  if (machine == Machine::aarch64) return fmt::format("[sp, {}]", offset);
  const std::string_view pointer = machine == Machine::i386 ? "%esp" : "%rsp";
  return offset == 0 ? fmt::format("({})", pointer) : fmt::format("{}({})", offset, pointer);
}

std::string operand(Machine machine, const Place& place, const CType& type) {
  const bool is_float = type.kind == ValueKind::floating;
  const std::string size = fmt::format("{}{}{}@", type.is_signed && !is_float ? "-" : "", type.size,
                                       is_float ? "f" : "");
  switch (place.kind) {
    case Place::Kind::integer_register:
      return size + register_name(machine, place.at, type.size);
    case Place::Kind::vector_register:
      return size + vector_name(machine, place.at, type.size);
    case Place::Kind::stack:
      return size + stack_place(machine, place.at);
    case Place::Kind::unknown:
      break;
  }
  return std::string(unknown_mark) + place.reason;
}

/// What is read of a passed argument to show it: never more than was passed.
CType read_as(const CType& passed, const std::optional<CType>& shown) {
  const bool alike =
      shown && (shown->kind == ValueKind::floating) == (passed.kind == ValueKind::floating);
  if (!alike || passed.kind == ValueKind::floating || shown->size > passed.size) {
    CType type = passed;
    if (alike && passed.kind != ValueKind::floating) type.kind = shown->kind;
    return type;
  }
  return *shown;
}

}  // namespace

CallArguments call_arguments(const ShownCall& call, Machine machine) {
  std::vector<std::optional<CType>> passed;
  std::vector<Place> places;
  Caller caller(machine, call.return_address);
  for (const std::string& spelling : call.passed) {
    passed.push_back(c_type(spelling, machine));
    places.push_back(caller.place(spelling, passed.back()));
  }
  CallArguments out;
  for (std::size_t i = 0; i < call.shown.size(); ++i) {
    const std::size_t source = i < call.sources.size() ? call.sources[i] : i;
    ArgumentType type;
    type.type = call.shown[i];
    type.argument = static_cast<std::uint32_t>(i);
    if (source >= passed.size()) {
      out.operands.push_back(std::string(unknown_mark) + "no argument is passed for it");
    } else if (!passed[source]) {
      out.operands.push_back(std::string(unknown_mark) + places[source].reason);
    } else {
      const CType as = read_as(*passed[source], c_type(call.shown[i], machine));
      type.kind = as.kind;
      out.operands.push_back(operand(machine, places[source], as));
    }
    out.types.push_back(std::move(type));
  }
  return out;
}

}  // namespace vitrine::probe
