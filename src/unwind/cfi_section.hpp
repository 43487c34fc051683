// A section of call frame information: .eh_frame or .debug_frame.
//
// Sources: LSB 5.0, 10.6 (.eh_frame, .eh_frame_hdr); DWARF 5, 6.4.1 (.debug_frame).
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "base/memory.hpp"

namespace vitrine::unwind {

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
  CfiSection(Memory& memory, const CfiPlace& place) : memory_(memory), place_(place) {}

  /// Takes .eh_frame_hdr's sorted table of entries, at `offset` of the Memory. False: it has none,
  /// or not in the one encoding that linkers write.
  bool use_index(std::uint64_t offset, std::uint64_t size, Address address);

  /// Makes the table by reading all entries. Stops at the first that makes no sense.
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

  /// nullopt: it makes no sense.
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

  Memory& memory_;
  CfiPlace place_;
  Address lowest_ = 0;
  std::vector<Indexed> index_;
  std::unordered_map<std::uint64_t, std::optional<CommonEntry>> commons_;
};

}  // namespace vitrine::unwind
