// Symbols of no file: addresses as a test gives them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "probe/argument.hpp"

namespace vitrine::test {

struct FixedSymbols final : probe::OperandSymbols {
  std::map<std::string, Address, std::less<>> addresses, slots;
  std::map<std::string, std::int64_t, std::less<>> thread_offsets;

  template <class T>
  static tl::expected<T, probe::ArgumentError> find(
      const std::map<std::string, T, std::less<>>& all, std::string_view name) {
    if (const auto found = all.find(name); found != all.end()) return found->second;
    return tl::unexpected<probe::ArgumentError>(
        {probe::ArgumentError::Kind::unresolved, "there is no " + std::string(name)});
  }

  tl::expected<Address, probe::ArgumentError> address(std::string_view name) override {
    return find(addresses, name);
  }
  tl::expected<Address, probe::ArgumentError> got_slot(std::string_view name) override {
    return find(slots, name);
  }
  tl::expected<std::int64_t, probe::ArgumentError> thread_offset(std::string_view name) override {
    return find(thread_offsets, name);
  }
};

}  // namespace vitrine::test
