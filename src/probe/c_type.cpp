#include "probe/c_type.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <vector>

namespace vitrine::probe {
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

}  // namespace vitrine::probe
