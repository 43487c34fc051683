// Symbols of an executable file: function symbols by address, .symtab, and mini debug info.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory.hpp"
#include "elf/image.hpp"
#include "elf/symbol_table.hpp"
#include "elf/symbols.hpp"
#include "sandbox/files.hpp"

namespace vitrine::symbol {

// The name of a file by what it holds: `process.executable.build_id.htlhash`.

/// Lower-case hex of the first 16 bytes of the SHA-256 of: the first 4,096 bytes, the last 4,096,
/// and the size as 8 bytes, big-endian (docs/formats/profiles.md, "Content hash"). Empty: it could
/// not be read.
std::string content_hash(Memory& file, std::uint64_t size);

// ExecutableSymbols: what the .symtab of executables defines, searched once a file.

struct ExecutableFacts {
  std::vector<std::byte> program_headers;  ///< Elf64_Phdr after Elf64_Phdr
  std::optional<elf::TlsSegment> tls;      ///< none, too, when it is invalid
  /// Where it is what the names that were asked for stand for: see elf::find_file_symbols.
  Result<std::vector<std::optional<elf::Symbol>>> symbols;
};

/// What a file contains of `names`. A worker finds it. Errors: malformed, unsupported (see
/// elf::read_image); failed, limit (more than its parser could stand).
Result<ExecutableFacts> read_executable(sandbox::FileMemory& file,
                                        std::span<const std::string_view> names);

/// Many processes run the same few programs, and a large program's table takes tens of
/// milliseconds to search: callers that look at many processes share one of these.
class ExecutableSymbols {
 public:
  /// As read_executable(). `names` must be the same in each call. Good until the next call.
  const Result<ExecutableFacts>& find(sandbox::FileMemory& file,
                                      std::span<const std::string_view> names);

 private:
  std::map<sandbox::FileIdentity, Result<ExecutableFacts>> known_;
  Result<ExecutableFacts> cut_short_;  ///< of a file that will be asked about again
};

// Intervals: which of many address ranges, that may nest and overlap, an address belongs to.

class Intervals {
 public:
  /// [start, end) belongs to `value`, where no other has a higher priority. Of equal ones the one
  /// that begins last has it, then the one added last.
  void add(Address start, Address end, std::uint32_t value, std::uint64_t priority);

  /// To be called once, after everything has been added.
  void build();

  [[nodiscard]] std::optional<std::uint32_t> find(Address address) const;
  [[nodiscard]] std::size_t size() const { return added_.size() + pieces_.size(); }

 private:
  struct Added {
    Address start = 0, end = 0;
    std::uint64_t priority = 0;
    std::uint32_t value = 0;
  };
  struct Piece {
    Address start = 0, end = 0;
    std::uint32_t value = 0;
  };
  std::vector<Added> added_;   ///< empty once built
  std::vector<Piece> pieces_;  ///< disjoint, ascending
};

// FunctionSymbols: the functions of one symbol table of a file, by address.

class FunctionSymbols {
 public:
  struct Found {
    std::string_view name;  ///< as the table spells it, without a version; lives as long as it
    Address start = 0;
    bool has_size = false;  ///< else the address is in it as no other symbol is nearer
  };

  /// Of the table of `type` (SHT_SYMTAB, SHT_DYNSYM). Errors: as elf::SymbolTable::read.
  static Result<FunctionSymbols> read(Memory& file, const elf::File& elf, std::uint32_t type);

  /// The innermost function around an address. One without a size, as of assembly, reaches to the
  /// next symbol or the end of its section, and yields to one with a size.
  [[nodiscard]] std::optional<Found> find(Address address) const;

  [[nodiscard]] const elf::SymbolTable& table() const { return table_; }

 private:
  explicit FunctionSymbols(elf::SymbolTable table) : table_(std::move(table)) {}

  elf::SymbolTable table_;
  Intervals functions_;  ///< indexes of table_
};

/// Its functions. Errors: not_found (the file has none), malformed, limit.
Result<FunctionSymbols> mini_debug_symbols(Memory& file, const elf::File& elf);

// FunctionTable: the same for some addresses at a time. To find a few, the symbols are gone through once, and nothing
// of them is kept: for libc's 8,000 that takes a twentieth of the time of an index. A table that is asked again and
// again gets its index.

class FunctionTable {
 public:
  struct Found {
    std::string name;
    Address start = 0;
    bool has_size = false;  ///< as FunctionSymbols::Found
  };

  /// Of the table of `type`. `file` and `elf` must outlive this. Errors: as elf::SymbolTable::read.
  static Result<FunctionTable> find(Memory& file, const elf::File& elf, std::uint32_t type);

  explicit FunctionTable(FunctionSymbols index) : index_(std::move(index)) {}

  /// One for each address; nothing: no function is there.
  [[nodiscard]] std::vector<std::optional<Found>> find(std::span<const Address> addresses);

 private:
  FunctionTable(Memory& file, const elf::File& elf, std::uint32_t type,
                const elf::SymbolSections& sections)
      : file_(&file), elf_(&elf), type_(type), sections_(sections) {}

  Memory* file_ = nullptr;
  const elf::File* elf_ = nullptr;
  std::uint32_t type_ = 0;
  elf::SymbolSections sections_;
  unsigned passes_ = 0;  ///< over the table
  std::optional<FunctionSymbols> index_;
};

}  // namespace vitrine::symbol
