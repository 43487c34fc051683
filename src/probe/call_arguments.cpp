#include "probe/call_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "probe/c_type.hpp"

namespace vitrine::probe {
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
    passed_ = (passed_ + alignment - 1) / alignment * alignment;
    Place place{Place::Kind::stack, stack_ + passed_, {}};
    passed_ += (size + convention_.slot - 1) / convention_.slot * convention_.slot;
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
