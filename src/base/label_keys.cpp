#include "base/label_keys.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace vitrine {

bool KeyNames::is_taken(std::string_view name) const {
  return name.empty() || taken_.contains(name) ||
         (!reserved_prefix_.empty() && name.starts_with(reserved_prefix_));
}

std::string KeyNames::add(std::string_view key) {
  std::string name = is_utf8(key) ? std::string(key) : replaced_utf8(key);
  if (is_taken(name)) {
    name.insert(0, renamed_key_prefix);
    const std::string base = name;
    for (std::uint64_t& number = numbers_[base]; is_taken(name);)
      name = fmt::format("{}.{}", base, ++number);
  }
  taken_.insert(name);
  return name;
}

}  // namespace vitrine
