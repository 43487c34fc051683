// The types of a probe's arguments as a DOF spells them, and the places that follow from them:
// {u8 machine}{u8 how many are passed}{names, each ended by NUL}.
#include "input.hpp"
#include "probe/argument.hpp"
#include "probe/types.hpp"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  constexpr int machines = static_cast<int>(Machine::other) + 1;
  const auto machine = static_cast<Machine>(data[0] % machines);
  std::vector<std::string> names;
  std::string_view rest(reinterpret_cast<const char*>(data) + 2, size - 2);
  while (!rest.empty() && names.size() < 64) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    names.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  for (const std::string& name : names)
    if (const auto type = probe::c_type(name, machine)) fuzz::require(type->size <= 16);

  const std::size_t passed = names.empty() ? 0 : data[1] % names.size() + 1;
  std::vector<std::uint8_t> sources;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (passed != 0) sources.push_back(static_cast<std::uint8_t>((i * 7 + data[1]) % passed));
  const probe::ShownCall call{std::span(names).first(passed), names, sources, (data[1] & 1) != 0};
  const auto places = probe::call_arguments(call, machine);
  fuzz::require(places.operands.size() == names.size());
  for (const probe::ArgumentType& type : places.types) {
    fuzz::require(type.argument < names.size());
    (void)probe::type_name(type, places.operands[type.argument]);
  }
  for (const std::string& operand : places.operands)
    if (const auto compiled = probe::compile_argument(operand, machine, 0x1000, nullptr); !compiled)
      fuzz::require(!compiled.error().message.empty());
  return 0;
}
