// FrameTable: how the functions of one file are left, by its call frame information.
//
// CFI is read as it is asked for, an entry at a time: a short profile of a huge program touches
// little of it. (Reading all of it first would cost libchdb 5.9 million rows: eco.md 3.1.)
//
// The reader is ours: libdw makes room for as many registers as an entry claims to have, so that
// an entry of ten bytes takes hundreds of megabytes; and it wants the whole file in its own hands.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/window_memory.hpp"
#include "elf/file.hpp"
#include "unwind/cfi_section.hpp"
#include "unwind/rule.hpp"

namespace vitrine::unwind {

class FrameTable {
 public:
  /// `file`: its bytes, from address 0: a file, or an image that is laid out as one (the vdso).
  /// Without CFI the table is there but has no rules. Errors: as elf::read_file; unsupported (a
  /// machine that we do not unwind).
  static Result<std::shared_ptr<FrameTable>> open(std::unique_ptr<Memory> file);

  /// The runtime address of the file's address 0, where its bytes from `offset` on are mapped at
  /// `start` (a line of /proc/PID/maps). nullopt: no segment is there.
  [[nodiscard]] std::optional<Address> bias(Address start, std::uint64_t offset) const;

  /// The rule at one of the file's own addresses.
  Rule rule(Address address);

  /// The same in full; null: no CFI. Lives until the next call.
  const Row* row(Address address);

  [[nodiscard]] Machine machine() const { return machine_; }

  /// What of the CFI could not be used; empty: nothing.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  FrameTable(std::unique_ptr<Memory> file, elf::File elf, Machine machine);

  void find_cfi();
  std::optional<Row> make_row(Address address);

  std::unique_ptr<Memory> file_;
  WindowMemory windows_;
  elf::File elf_;
  Machine machine_;
  std::string problem_;
  std::unique_ptr<Memory> unpacked_;  // .debug_frame, which may be compressed
  std::optional<CfiSection> cfi_;
  std::unordered_map<Address, std::optional<Row>> rows_;
};

}  // namespace vitrine::unwind
