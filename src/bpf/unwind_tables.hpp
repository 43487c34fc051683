// UnwindTables: what the profiling program knows of code to unwind stacks by.
//
// Order of things. One thread writes; the program reads on any CPU at any time. Pages and spaces are
// written first and entered into a hash table afterwards, so a lookup finds them complete, and
// they are not written to again. A hash table's element may be used again while it is read, but its
// value is one word, and what that refers to names itself: a reader either finds what it looked for
// or notices. When there is no room, both hash tables are emptied, the readers that may have found
// something in them before are waited for, and all begins anew, with ids that have not been used: the
// rules that a CPU keeps by address and id are found by no one any more. What was there comes back as
// samples ask for it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.hpp"
#include "bpf/wire/profile.h"
#include "unwind/rule_page.hpp"

namespace vitrine::bpf {

class UnwindTables {
 public:
  using Places = __u64[VITRINE_PLACES];

  /// Of maps of these descriptors: unwind_tables, unwind_pages, unwind_spaces; and of what programs look at before the
  /// last (vitrine_profile_state.spaces). Errors: failed (they cannot be mapped).
  static Result<std::unique_ptr<UnwindTables>> open(int tables, int pages, int spaces,
                                                    Places& places);

  virtual ~UnwindTables() = default;

  [[nodiscard]] virtual bool has_page(std::uint32_t file, std::uint32_t page) const = 0;
  virtual void add_page(std::uint32_t file, std::uint32_t page, const unwind::RulePage& rules,
                        Machine machine) = 0;

  /// The regions of a process in this execution (vitrine_execution_of), by address; those it had before
  /// are its no more. `known_ns` (CLOCK_MONOTONIC): all that it has mapped by then is in them.
  /// What it maps in their place after that makes them useless. Returns their id
  /// (vitrine_stack_sample.space); 0: they have no room.
  virtual std::uint32_t set_space(pid_t kernel_tgid, std::uint64_t execution,
                                  std::span<const vitrine_unwind_region> regions,
                                  std::uint64_t known_ns) = 0;
  /// They are the same, though it has mapped something by `known_ns`.
  virtual void confirm_space(pid_t kernel_tgid, std::uint64_t known_ns) = 0;
  virtual void forget(pid_t kernel_tgid) = 0;

  /// How often all began anew: what was given before that is not there any more.
  [[nodiscard]] virtual std::uint32_t epoch() const = 0;
};

}  // namespace vitrine::bpf
