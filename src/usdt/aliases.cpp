#include "usdt/aliases.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_set>

namespace vitrine::usdt {
namespace {

/// "$dtrace<key>.<function>", or that with ".<number>" where the object has several of the name:
/// how well the alias fits, 0 for not.
int fits(std::string_view alias, std::string_view function) {
  const auto name = alias.substr(std::min(alias.find('.'), alias.size() - 1) + 1);
  if (name == function) return 2;
  if (!name.starts_with(function) || !name.substr(function.size()).starts_with('.')) return 0;
  const auto number = name.substr(function.size() + 1);
  return !number.empty() && number.find_first_not_of("0123456789") == number.npos ? 1 : 0;
}

}  // namespace

Aliases name_functions(const ObjectFile& object, std::span<const Function> functions,
                       std::uint64_t key, unsigned char binding) {
  std::multimap<Place, std::string_view> known;
  std::unordered_set<std::string> taken;
  for (const Symbol& symbol : object.symbols()) {
    if (!symbol.name.starts_with(alias_prefix)) continue;
    taken.emplace(symbol.name);
    if (symbol.binding == binding && symbol.section != 0)
      known.emplace(Place{symbol.section, symbol.value}, symbol.name);
  }
  Aliases aliases;
  for (std::size_t i = 0; i < functions.size(); ++i) {
    const std::string suffix = "." + functions[i].name;
    std::string name;
    const auto [from, to] = known.equal_range(functions[i].start);
    int best = 0;
    for (auto one = from; one != to; ++one) {
      const int fit = fits(one->second, functions[i].name);
      if (fit <= best) continue;
      best = fit;
      name = one->second;
    }
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
