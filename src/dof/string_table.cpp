#include "dof/string_table.hpp"

namespace vitrine::dof {

std::uint32_t StringTable::add(const std::vector<std::string>& texts) {
  if (texts.empty()) return 0;
  std::string joined;
  for (const std::string& text : texts) joined.append(text).push_back('\0');
  return add_bytes(std::move(joined));
}

std::uint32_t StringTable::add_bytes(std::string text) {
  const auto [known, is_new] =
      known_.try_emplace(std::move(text), static_cast<std::uint32_t>(bytes_.size()));
  if (is_new) bytes_ += known->first;
  return known->second;
}

}  // namespace vitrine::dof
