// Functions of Go programs by .gopclntab, which they have also when they are stripped.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/memory.hpp"
#include "elf/file.hpp"

namespace vitrine::elf {

/// Whether a file was made by the Go tool chain.
bool is_go_file(const File& elf);

/// A function of the table.
struct GoFunction {
  Address start = 0;
  Address end = 0;       ///< where the next begins: with the padding between the two
  std::uint64_t at = 0;  ///< of what the runtime knows of it, in the table
};

/// A table of Go 1.18 or later, which is read as it is asked for.
class GoFunctions {
 public:
  /// `file` must outlive this. nullopt: there is no such table.
  static std::optional<GoFunctions> open(Memory& file, const File& elf);

  [[nodiscard]] std::uint64_t size() const { return count_; }

  /// By its number. nullopt: the table is malformed there.
  std::optional<GoFunction> at(std::uint64_t number);
  /// The one that has an address.
  std::optional<GoFunction> find(Address address);

  /// Empty: it has none.
  std::string name(const GoFunction& function);

  struct Flags {
    bool is_first = false;        ///< nothing has called it (TOPFRAME)
    bool switches_stack = false;  ///< it writes the stack pointer (SPWRITE)
  };
  Flags flags(const GoFunction& function);

  /// Visits how far the stack pointer is below what it was at the function's entry: from an address
  /// until another. Ends when it returns false, at the function's end, and where the table is malformed.
  using VisitDepth = std::function<bool(Address from, Address to, std::int32_t bytes)>;
  void visit_depths(const GoFunction& function, const VisitDepth& visit);

 private:
  GoFunctions(Memory& file, const Encoding& encoding, const Section& section)
      : file_(&file), encoding_(encoding), offset_(section.offset), bytes_(section.size) {}

  std::uint64_t number(std::uint64_t at, std::size_t bytes);
  std::uint32_t u32(std::uint64_t at) { return static_cast<std::uint32_t>(number(at, 4)); }

  Memory* file_;
  Encoding encoding_;
  std::uint64_t offset_, bytes_;  // of the table in the file
  bool has_start_lines_ = false;  // since 1.20
  unsigned quantum_ = 1;          // bytes of code that a step of the depths is
  Address text_ = 0;
  std::uint64_t count_ = 0, names_ = 0, depths_ = 0, functions_ = 0;
};

/// Called with the address and the name of each function.
using VisitGoFunction = std::function<void(Address, std::string_view)>;

/// Visits the functions of a table of Go 1.18 or later. What is malformed ends it.
void visit_go_functions(Memory& file, const File& elf, const VisitGoFunction& visit);

}  // namespace vitrine::elf
