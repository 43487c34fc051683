// The functions and source lines of a file's addresses, as its debug information has them.
#pragma once

#include <elfutils/libdw.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file_descriptor.hpp"
#include "elf/file.hpp"
#include "symbol/compressed_sections.hpp"
#include "symbol/dwarf_unit.hpp"
#include "symbol/function_symbols.hpp"
#include "symbol/symboliser.hpp"

namespace vitrine::symbol {

/// Bytes of memory that this process has allocated.
std::size_t allocated();

// DwarfInfo: what the debug information of a file has for an address. Units are read when an address of
// theirs is first asked for. Which they are, .debug_aranges has (without reading them); where that lacks an address,
// each unit is asked. libdw keeps what it has read of a unit until it ends: when find() has read more than it may keep,
// it begins anew.

class DwarfInfo {
 public:
  /// What is looked for: names and lines need not the sections that have the places of variables.
  enum class Purpose { signatures, names };

  /// Of the file behind a descriptor, which stays open as long, as `elf` must be there. Errors: not_found (it has none),
  /// malformed. `kept`: bytes of memory for units that were read, before the next one is.
  static Result<std::unique_ptr<DwarfInfo>> open(int descriptor, const elf::File& elf,
                                                 Purpose purpose,
                                                 std::uint64_t kept = ~std::uint64_t{0});

  /// See DwarfUnit::find; empty where no unit is. Entries that were returned before may not be used any
  /// more.
  Frames find(Address address, std::size_t depth);

  /// The same of an address with a symbol, where that takes its line table alone: see find_assembly_line(). Empty: it is
  /// not known so.
  Frames find_in_assembly(Address address);

  /// A number of the unit that an address is in. The numbers change once each unit has been asked.
  [[nodiscard]] std::optional<std::uint32_t> unit_of(Address address);

  /// It and those before it are about to be read: their part of compressed sections is inflated at once.
  void expect_unit(std::uint32_t unit);

  /// The entry of the function that has code at an address of its own; nothing: none is known.
  std::optional<Dwarf_Die> function_around(Address address);

  /// Whether a compressed section of the file turned out to be damaged: what was read of entries may be wrong then,
  /// and nothing more is known of the file. find() and function_around() ask this.
  bool is_damaged();

  /// Of the file's content, which the kernel has still.
  void let_go_of_pages();

  /// The topmost entries of its units.
  [[nodiscard]] const std::vector<Dwarf_Die>& units() const { return tops_; }

  /// Why less is known than there could be; empty: nothing is missing.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  struct EndElf {
    void operator()(Elf* elf) const { elf_end(elf); }
  };
  struct EndDwarf {
    void operator()(::Dwarf* dwarf) const { dwarf_end(dwarf); }
  };

  /// A file as libelf has it. Mapped here, where it can be: libelf does not report whether it has
  /// mapped a file, or has read it.
  class ElfInMemory {
   public:
    explicit ElfInMemory(int descriptor);
    ~ElfInMemory();
    ElfInMemory(const ElfInMemory&) = delete;
    ElfInMemory& operator=(const ElfInMemory&) = delete;

    [[nodiscard]] Elf* get() const { return elf_.get(); }
    /// Compressed sections, before libdw does it.
    void inflate();
    [[nodiscard]] InflatedSections& inflated() { return inflated_; }
    [[nodiscard]] std::string broken() const { return inflated_.broken(); }
    [[nodiscard]] std::size_t mapped_bytes() const { return mapped_.size(); }
    /// Which the kernel has still.
    void let_go_of_pages() const;

   private:
    void find_headers();

    std::span<std::byte> mapped_;
    std::size_t headers_begin_ = 0, headers_end_ = 0;  ///< of its pages with section headers
    InflatedSections inflated_;
    std::unique_ptr<Elf, EndElf> elf_;  ///< null: it is none
  };

  /// What libdw has of a file. Ends in the reverse order.
  struct Session {
    explicit Session(int descriptor) : elf(descriptor) {}
    /// See InflatedSections.
    [[nodiscard]] std::string broken() const;

    ElfInMemory elf;
    std::string problem;  ///< as of DwarfInfo
    FileDescriptor shared_file;
    std::optional<ElfInMemory> shared_elf;
    std::unique_ptr<::Dwarf, EndDwarf> shared;  ///< what dwz moved out of this and other files
    std::unique_ptr<::Dwarf, EndDwarf> dwarf;
  };

  DwarfInfo(int descriptor, std::unique_ptr<Session> session, const elf::File& headers,
            Purpose purpose, std::uint64_t kept);
  static Result<std::unique_ptr<Session>> begin(int descriptor, Purpose purpose);
  static void take_shared(Session& session);
  void begin_anew();
  bool list_units();
  [[nodiscard]] std::span<const std::byte> section(std::string_view name) const;
  void ask_units();
  bool find_top(std::uint32_t index);
  std::optional<std::uint32_t> readable_unit_of(Address address);
  [[nodiscard]] bool is_code(Address address) const;
  void add_units();
  void add_from_aranges();
  void add(Address start, Address end, std::uint32_t unit);
  DwarfUnit& unit(std::uint32_t index);

  int descriptor_;
  const elf::File& headers_;
  Purpose purpose_;
  std::unique_ptr<Session> session_;  ///< null: the file cannot be read any more
  std::uint64_t kept_;                ///< as of open()
  std::uint64_t allocated_ = 0;       ///< bytes, for units
  std::uint64_t read_ = 0;            ///< bytes of units since pages were let go
  struct Code {
    Address start = 0, end = 0;
  };
  std::vector<Code> code_;         ///< sections of it
  std::vector<Dwarf_Off> listed_;  ///< where units are; empty: all have been asked
  std::vector<Address> starts_;    ///< of the code of those, ascending
  std::vector<Dwarf_Die> tops_;    ///< of units, of those that are listed where they have been read
  Intervals ranges_;               ///< indexes of tops_
  std::unordered_map<std::uint32_t, DwarfUnit> units_;
  std::size_t size_ = 0;  ///< of units_, together
  std::string problem_;
  bool is_damaged_ = false;
};

}  // namespace vitrine::symbol
