// A site with typed arguments, and fires of it, as the tests of conditions and reductions want them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "query/subject.hpp"

namespace vitrine::query::test {

inline vitrine_operand operand(std::uint8_t size, std::uint8_t flags = 0) {
  vitrine_operand out{};
  out.kind = VITRINE_REGISTER;
  out.size = size;
  out.flags = flags;
  return out;
}

inline probe::ArgumentType type(std::uint32_t argument, std::string name, std::string spelled,
                                probe::ValueKind kind) {
  probe::ArgumentType out;
  out.argument = argument;
  out.name = std::move(name);
  out.type = std::move(spelled);
  out.kind = kind;
  return out;
}

/// order(int id, std::string_view item, double price, Colour colour, bool paid, void* who, int lost
/// (which cannot be decoded)), and untyped ones: 8 a long, 9 a size_t, 10 of 16 bytes.
struct OrderSite {
  std::vector<vitrine_operand> operands{
      operand(4, VITRINE_SIGNED), operand(8), operand(8), operand(8, VITRINE_FLOAT),
      operand(4, VITRINE_SIGNED), operand(1), operand(8), vitrine_operand{},
      operand(8, VITRINE_SIGNED), operand(8), operand(16)};
  std::vector<probe::ArgumentType> types{
      type(0, "id", "int", probe::ValueKind::integer),
      type(1, "item", "std::string_view", probe::ValueKind::string_view),
      type(3, "price", "double", probe::ValueKind::floating),
      type(4, "colour", "Colour", probe::ValueKind::enumeration),
      type(5, "paid", "bool", probe::ValueKind::boolean),
      type(6, "who", "void *", probe::ValueKind::pointer),
      type(7, "lost", "int", probe::ValueKind::integer)};

  OrderSite() {
    types[1].length_argument = 2;
    types[3].enumerators = {{-1, "NONE"}, {1, "RED"}, {2, "GREEN"}};
  }
  Arguments arguments() const { return {operands, types}; }
};

class MapLabels : public Labels {
 public:
  std::map<std::string, std::string, std::less<>> map;
  std::optional<std::string_view> value(std::string_view key) const override {
    const auto found = map.find(key);
    if (found == map.end()) return std::nullopt;
    return found->second;
  }
};

inline probe::Value text(std::string bytes, bool truncated = false) {
  return probe::StringValue{std::move(bytes), truncated};
}

/// A fire of the order site: what each argument is, as a number and as the text it points to.
struct OrderFire {
  std::map<std::uint32_t, probe::Value> numbers{{0, std::int64_t{17}},
                                                {1, std::uint64_t{0x7f00'0000}},
                                                {2, std::uint64_t{6}},
                                                {3, 2.5},
                                                {4, probe::EnumeratorValue{1, "RED"}},
                                                {5, true},
                                                {6, probe::PointerValue{0x7fff'0000}},
                                                {8, std::int64_t{-3}},
                                                {9, std::uint64_t{5}}};
  std::map<std::uint32_t, probe::Value> texts{{1, text("kettle")}, {9, text("/etc/hosts")}};
  MapLabels labels;
  std::vector<probe::Value> values;
  Fire fire;

  OrderFire() {
    labels.map = {{"tenant", "acme"}, {"http.route", "/order"}, {"retries", "3"}};
    fire.probe = "shop:order";
    fire.comm = "server";
    fire.pid = 4242;
    fire.tid = 4243;
    fire.cpu = 1;
    fire.trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
  }

  /// The 64 bits of an argument, as the kernel extends them: any byte but 0 is true.
  std::optional<std::uint64_t> bits_of(std::uint32_t argument) const {
    const auto found = numbers.find(argument);
    if (found == numbers.end()) return std::nullopt;
    if (const auto* truth = std::get_if<bool>(&found->second)) return *truth ? 0x40 : 0;
    const auto number = number_of(found->second);
    if (!number || std::holds_alternative<double>(*number)) return std::nullopt;
    return std::visit([](auto one) { return static_cast<std::uint64_t>(one); }, *number);
  }

  probe::Value calculated(const Capture& capture) const {
    const probe::ValueError error{"not readable"};
    if (!capture.problem.empty()) return error;
    std::vector<std::uint64_t> stack;
    for (const CalculationStep& step : capture.calculation.steps) {
      if (step.kind == VITRINE_CALCULATE_PUSH) {
        const auto bits = step.argument ? bits_of(*step.argument) : step.constant;
        if (!bits) return error;
        stack.push_back(*bits);
        continue;
      }
      const std::uint64_t right = stack.back();
      if (step.kind >= VITRINE_CALCULATE_ADD) stack.pop_back();
      __u64 result = 0;
      if (vitrine_calculate(step.kind, step.is_signed ? 1 : 0, stack.back(), right, &result) != 0)
        return error;
      stack.back() = result;
    }
    if (capture.calculation.is_signed) return static_cast<std::int64_t>(stack.back());
    return stack.back();
  }

  /// With one value for each capture.
  const Fire& with(const std::vector<Capture>& captures) {
    values.clear();
    for (const Capture& capture : captures) {
      if (capture.is_calculated()) {
        values.push_back(calculated(capture));
        continue;
      }
      const auto& from = capture.form == Form::number ? numbers : texts;
      const auto found = from.find(capture.argument);
      values.push_back(found == from.end() ? probe::Value(probe::ValueError{"not readable"})
                                           : found->second);
    }
    fire.values = values;
    fire.labels = &labels;
    return fire;
  }
};

}  // namespace vitrine::query::test
