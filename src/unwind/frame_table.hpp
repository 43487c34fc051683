// FrameTable: how the functions of one file are left, by its call frame information.
//
// CFI is read as it is asked for, an entry at a time: a short profile of a huge program touches
// little of it. (Reading all of it first would cost libchdb 5.9 million rows.)
//
// This reader is not libdw's: libdw makes room for as many registers as an entry claims to have, so that
// an entry of ten bytes takes hundreds of megabytes; and it wants the whole file in its own hands.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/memory.hpp"
#include "elf/file.hpp"
#include "unwind/cfi.hpp"
#include "unwind/code_rules.hpp"
#include "unwind/go_code.hpp"
#include "unwind/rule.hpp"

namespace vitrine::unwind {

// Code that compilers did not write and that often comes without CFI, but looks the same everywhere.

/// The row within a procedure linkage table: lld writes no CFI for it. `section`: its name;
/// `offset`: of the pc in it. nullopt: not a section of this kind.
std::optional<Row> linkage_row(Machine machine, std::string_view section, std::uint64_t offset);

/// Bytes that signal_row wants to see.
inline constexpr std::size_t signal_code_bytes = 10;

/// The row of the code to which a signal handler returns, recognised by its instructions: musl's
/// has no CFI, and no CFI could give the pc and the link register of the interrupted function on
/// aarch64. nullopt: the code is something else.
std::optional<Row> signal_row(Machine machine, std::span<const std::byte> code);

/// The row of a trampoline by which the kernel's own signal frame is left.
Row signal_frame_row(Machine machine);

/// The runtime address of a file's address 0, where its bytes from `offset` on are mapped at `start`
/// (a line of /proc/PID/maps). nullopt: none of its `segments` that are executed is there.
std::optional<Address> bias_of(std::span<const elf::Segment> segments, Address start,
                               std::uint64_t offset);

/// The .eh_frame of a file, found by its section or else by .eh_frame_hdr, and with that one's table where it is usable.
/// `memory` must outlive what is returned. nullopt: the file has none, or no entry in it. Errors: limit (it is larger
/// than limits::cfi_section).
Result<std::optional<CfiSection>> open_eh_frame(Memory& memory, const elf::File& elf);

class FrameTable final : public RuleSource {
 public:
  /// `file`: its bytes, from address 0: a file, or an image that is laid out as one (the vdso).
  /// Without CFI the table is there but has no rules. Errors: as elf::read_file; unsupported (a
  /// machine that we do not unwind).
  static Result<std::shared_ptr<FrameTable>> open(std::unique_ptr<Memory> file);

  [[nodiscard]] Machine machine() const override { return machine_; }
  Rule rule(Address address) override;
  const Row* row(Address address) override;
  Rule rule_by_code(Address pc, bool is_return) override;
  bool follows_call(Address address) override;

  /// The rules of the functions around an address; where there are none, of the code without. It
  /// may be empty: then a caller asks for the address by itself.
  RuleBlock rules_around(Address address);

  [[nodiscard]] std::span<const elf::Segment> segments() const { return elf_.segments; }
  [[nodiscard]] Memory& file() { return *file_; }
  [[nodiscard]] const elf::File& elf() const { return elf_; }

  /// What of the CFI could not be used; empty: nothing.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  FrameTable(std::unique_ptr<Memory> file, elf::File elf, Machine machine);

  void find_cfi();
  std::optional<Row> make_row(Address address);
  RuleBlock rules_of_entries(std::size_t position);
  RuleBlock rules_between(Address address, Address start, Address end);
  bool begins_context(Address function);
  bool ends_context(Address address);
  std::size_t read_code(Address address, std::span<std::byte> into);
  bool has_frame_pointers(Address address);
  std::pair<Address, Address> start_code();

  std::unique_ptr<Memory> file_;
  WindowMemory windows_;
  elf::File elf_;
  Machine machine_;
  std::string problem_;
  std::unique_ptr<Memory> unpacked_;  // .debug_frame, which may be compressed
  std::optional<CfiSection> cfi_;
  std::optional<Row> row_;  // that was asked for last
  CodeRules code_rules_;
  std::optional<GoCode> go_;
  std::optional<std::pair<Address, Address>> start_code_;
  std::map<Address, bool> frame_pointers_;  // whether code without CFI keeps them, by its start
};

}  // namespace vitrine::unwind
