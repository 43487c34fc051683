// KernelSymbols: the functions of the kernel and its modules, by address.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory.hpp"
#include "base/result.hpp"

namespace vitrine::symbol {

class KernelSymbols {
 public:
  struct Function {
    std::string_view name;    ///< lives as long as the symbols
    std::string_view module;  ///< "bpf" for BPF programs; empty: the kernel proper
    Address start = 0;
  };

  /// Takes the text of /proc/kallsyms. Errors: not_permitted (the kernel hides the addresses; the
  /// remedy has what makes them visible), malformed (no line of it is one), limit.
  static Result<KernelSymbols> parse(std::string text);

  /// The function that begins at or closest before an address.
  [[nodiscard]] std::optional<Function> find(Address address) const;

  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    Address start = 0;
    std::uint32_t name = 0, module = 0;  ///< where they begin in text_
    std::uint16_t name_size = 0, module_size = 0;
    bool global = false;
  };
  std::string text_;
  std::vector<Entry> entries_;  ///< ascending, one an address
};

}  // namespace vitrine::symbol
