#include "usdt/aliases.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <map>
#include <unordered_set>

namespace vitrine::usdt {

Aliases name_functions(const ObjectFile& object, std::span<const Function> functions,
                       std::uint64_t key) {
  std::multimap<Place, std::string_view> known;
  std::unordered_set<std::string> taken;
  for (const Symbol& symbol : object.symbols()) {
    if (!symbol.name.starts_with(alias_prefix)) continue;
    taken.emplace(symbol.name);
    if (symbol.binding == STB_GLOBAL && symbol.section != 0)
      known.emplace(Place{symbol.section, symbol.value}, symbol.name);
  }
  Aliases aliases;
  for (std::size_t i = 0; i < functions.size(); ++i) {
    const std::string suffix = "." + functions[i].name;
    std::string name;
    const auto [from, to] = known.equal_range(functions[i].start);
    for (auto one = from; one != to && name.empty(); ++one)
      if (one->second.find(suffix) != one->second.npos) name = one->second;
    if (name.empty()) {
      const std::string wanted = fmt::format("{}{:016x}{}", alias_prefix, key, suffix);
      name = wanted;
      // Local functions of one name, in an object that ld -r made of several.
      for (unsigned n = 2; !taken.insert(name).second; ++n) name = fmt::format("{}.{}", wanted, n);
      aliases.added.push_back(i);
    }
    aliases.names.push_back(std::move(name));
  }
  return aliases;
}

}  // namespace vitrine::usdt
