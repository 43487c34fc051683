// Records that wait in memory, each as what differs from the last one of its source.
//
// Two fires of one thread at one site have the same process, site, labels and most arguments: of some two hundred
// bytes, twenty differ. Kept that way, a burst of millions of fires takes tens of megabytes.
//
// Packed: size (4 bytes), place of the source in the table of last records (1 byte), a bit for each word of 8 bytes
// that differs, and of each of those which of its bytes differ (1 byte) and these bytes, exclusive-or'ed with the last
// record's. A record that is longer than the table's places is kept as it is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace vitrine::bpf {

/// The last record of each source, as the side that packs and the side that unpacks both know it. Both begin anew
/// with each chunk of records.
class LastRecords {
 public:
  static constexpr std::size_t sources = 128, max_words = 64;
  static constexpr std::size_t max_bytes = max_words * sizeof(std::uint64_t);  ///< of a record

  LastRecords() : table_(std::make_unique<Table>()) {}

  void begin_anew() { table_->fill({}); }

  /// At most so many bytes for a record of `size`.
  static constexpr std::size_t max_packed(std::size_t size) {
    return header_bytes + (size <= max_bytes ? max_words / 8 + (size / 8 + 1) * 9 : size);
  }

  /// Writes `record` (at most 4 GiB) to `into`, which has room for max_packed(); returns the number of bytes. `source`:
  /// a number; where two sources have one place, more bytes differ.
  std::size_t pack(std::span<const std::byte> record, std::uint64_t source, std::byte* into);

  /// Takes a record off `packed`, which pack() wrote. It is good until the next call, and as long as `packed`.
  std::span<const std::byte> unpack(std::span<const std::byte>& packed);

 private:
  static constexpr std::size_t header_bytes = 5;
  using Table = std::array<std::array<std::uint64_t, max_words>, sources>;

  std::unique_ptr<Table> table_;
};

}  // namespace vitrine::bpf
