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

  /// Takes the text of /proc/kallsyms, of which it keeps the names of functions. Errors: not_permitted
  /// (the kernel hides the addresses; the remedy has what makes them visible), malformed (no line of it
  /// is one), limit.
  static Result<KernelSymbols> parse(std::string_view text);

  /// The same of an open file, a piece at a time. Errors: as parse(); failed.
  static Result<KernelSymbols> read(int file);

  /// The function that begins at or closest before an address.
  [[nodiscard]] std::optional<Function> find(Address address) const;

  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    Address start = 0;
    std::uint32_t name = 0;  ///< where it begins in names_
    std::uint16_t name_size = 0;
    std::uint16_t kind = 0;  ///< twice its place in modules_, and one more: it is global

    [[nodiscard]] bool is_global() const { return (kind & 1) != 0; }
    [[nodiscard]] std::size_t module() const { return kind / 2; }
  };

  Result<void> add_line(std::string_view line);
  Result<void> finish();

  std::string names_;
  std::vector<std::string> modules_{""};
  std::vector<Entry> entries_;  ///< ascending, one an address
  bool hidden_ = false;         ///< an address was 0
};

}  // namespace vitrine::symbol
