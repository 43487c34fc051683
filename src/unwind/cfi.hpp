// Call frame information of a file: sections, pointers, and programs of rows.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/memory.hpp"
#include "elf/cursor.hpp"
#include "unwind/rule.hpp"

namespace vitrine::unwind {

using elf::Cursor;

// Pointers as .eh_frame writes them (LSB 5.0, 10.5).

/// DW_EH_PE_*: the low half is a format, the high half what it is relative to.
enum PointerEncoding : std::uint8_t {
  pointer_absolute = 0x00,
  pointer_uleb = 0x01,
  pointer_u2 = 0x02,
  pointer_u4 = 0x03,
  pointer_u8 = 0x04,
  pointer_sleb = 0x09,
  pointer_s2 = 0x0a,
  pointer_s4 = 0x0b,
  pointer_s8 = 0x0c,
  pointer_relative_to_itself = 0x10,
  pointer_relative_to_data = 0x30,
  pointer_indirect = 0x80,
  pointer_omitted = 0xff,
};

/// The number alone, sign-extended where its format has a sign; nullopt: no such format.
inline std::optional<std::uint64_t> read_number(Cursor& cursor, std::uint8_t encoding) {
  const auto extended = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  switch (encoding & 0x0f) {
    case pointer_absolute:
    case pointer_u8:
    case pointer_s8:
      return cursor.number<std::uint64_t>();
    case pointer_uleb:
      return cursor.uleb();
    case pointer_u2:
      return cursor.number<std::uint16_t>();
    case pointer_u4:
      return cursor.number<std::uint32_t>();
    case pointer_sleb:
      return extended(cursor.sleb());
    case pointer_s2:
      return extended(cursor.number<std::int16_t>());
    case pointer_s4:
      return extended(cursor.number<std::int32_t>());
    default:
      return std::nullopt;
  }
}

/// A pointer; `at`: the address of the cursor's first byte. nullopt: an encoding that no compiler
/// uses for code, or the bytes end.
inline std::optional<Address> read_pointer(Cursor& cursor, std::uint8_t encoding, Address at) {
  const Address here = at + cursor.position();
  const auto number = read_number(cursor, encoding);
  if (!number || cursor.failed()) return std::nullopt;
  switch (encoding & 0xf0) {
    case 0:
      return *number;
    case pointer_relative_to_itself:
      return here + *number;
    default:
      return std::nullopt;
  }
}

// A section of call frame information: .eh_frame or .debug_frame.
//
// Sources: LSB 5.0, 10.6 (.eh_frame, .eh_frame_hdr); DWARF 5, 6.4.1 (.debug_frame).

/// A common information entry (CIE): what many functions share.
struct CommonEntry {
  std::uint64_t code_alignment = 1;
  std::int64_t data_alignment = 1;
  std::uint64_t result_column = 0;    ///< of the return address
  std::uint8_t pointer_encoding = 0;  ///< DW_EH_PE_*, of the FDEs' addresses
  bool has_augmentation = false;      ///< FDEs have augmentation data to pass over
  bool is_signal = false;
  std::vector<std::byte> program;
};

/// A frame description entry (FDE): one function, or a part of one.
struct FrameEntry {
  Address start = 0;
  std::uint64_t size = 0;
  const CommonEntry* common = nullptr;  ///< kept by the section, until it reads another entry
  std::vector<std::byte> program;
};

/// Where the section is.
struct CfiPlace {
  std::uint64_t offset = 0;  ///< in the Memory
  std::uint64_t size = 0;
  Address address = 0;    ///< in the file's own address space
  bool is_debug = false;  ///< .debug_frame
};

class CfiSection {
 public:
  /// `memory` must outlive this.
  CfiSection(Memory& memory, const CfiPlace& place) : memory_(&memory), place_(place) {}

  /// Takes .eh_frame_hdr's sorted table of entries, at `offset` of the Memory. False: it has none,
  /// or not in the one encoding that linkers write.
  bool use_index(std::uint64_t offset, std::uint64_t size, Address address);

  /// Makes the table by reading all entries. Stops at the first that is invalid.
  void make_index();

  [[nodiscard]] std::size_t entries() const { return index_.size(); }

  /// The entry around an address.
  std::optional<FrameEntry> find(Address address);

  // The same by its position in the table, by which entries are sorted.

  /// The position whose entry has the address, if one has; nullopt: none can.
  [[nodiscard]] std::optional<std::size_t> position_of(Address address) const;

  /// The first address that is looked for at a position; of the one past the last: where the last
  /// can end at most.
  [[nodiscard]] Address start_of(std::size_t position) const;

  /// nullopt: it is invalid.
  std::optional<FrameEntry> entry_at(std::size_t position);

 private:
  /// One row of the table. Relative to `lowest_`: no file has 4 GiB of code.
  struct Indexed {
    std::uint32_t start = 0;
    std::uint32_t position = 0;
  };
  struct Raw {
    std::uint64_t next = 0;   ///< position of the entry after
    std::uint64_t id_at = 0;  ///< position of the id or pointer to the CIE
    std::uint64_t id = 0;
    std::uint64_t body_at = 0;
    bool is_common = false;
    bool is_end = false;
  };

  std::optional<Raw> header(std::uint64_t position);
  std::vector<std::byte> bytes(std::uint64_t from, std::uint64_t to);
  std::optional<CommonEntry> read_common(const Raw& raw);
  const CommonEntry* common(std::uint64_t position);
  std::optional<FrameEntry> read_entry(const Raw& raw, bool with_program);
  void add(Address start, std::uint64_t position);

  Memory* memory_;
  CfiPlace place_;
  Address lowest_ = 0;
  std::vector<Indexed> index_;
  std::unordered_map<std::uint64_t, std::optional<CommonEntry>> commons_;
};

// The programs of call frame information: instructions that make rows (DWARF 5, 6.4.2).

/// The row of `address`, which is in the entry. nullopt: the program is malformed, or uses what no
/// compiler for this machine does.
std::optional<Row> row_at(const FrameEntry& entry, Address address, Machine machine);

/// The rules of all rows of the entry, each with the addresses that have it, in order: what row_at
/// returns for them, compact. Ends where the program is invalid, and when `take` returns false.
using TakeRule = std::function<bool(Address start, Address end, const Rule& rule)>;
void rules_of(const FrameEntry& entry, Machine machine, const TakeRule& take);

}  // namespace vitrine::unwind
