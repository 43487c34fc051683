// UnwindLog: fills the tables by which the kernel unwinds stacks (wire/unwind.h). Pure: they may be
// any memory.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bpf/wire/unwind.h"
#include "unwind/rule_page.hpp"

namespace vitrine::bpf {

/// Appends. What was appended stays as it is until clear().
class UnwindLog {
 public:
  /// Makes bytes of the tables accessible, before they are first written to. False: that is not possible.
  using Reach = std::function<bool(const void* from, std::size_t bytes)>;

  /// `reach`: empty: all of the tables is.
  explicit UnwindLog(vitrine_unwind_tables& tables, Reach reach = {})
      : tables_(tables), reach_(std::move(reach)) {}

  /// Where the page is in `words`; nullopt: there is no room.
  std::optional<std::uint32_t> add_page(vitrine_unwind_page_key key, const unwind::RulePage& page,
                                        Machine machine);

  /// The id of the regions of a process, which are by address and do not overlap; nullopt: there is
  /// no room.
  std::optional<std::uint32_t> add_space(pid_t kernel_tgid, std::uint64_t execution,
                                         std::span<const vitrine_unwind_region> regions,
                                         std::uint64_t known_ns);
  /// Of a space that is still in force.
  void confirm_space(std::uint32_t id, std::uint64_t known_ns);

  /// Begins anew, with other ids than before. No reader may have anything of it any more.
  void clear();

  /// The code of a rule; VITRINE_UNWIND_COPY where the kernel cannot apply it, or there are too many.
  std::uint32_t code_of(const unwind::Rule& rule, Machine machine);

 private:
  std::uint32_t number_of(const unwind::Rule& rule);
  [[nodiscard]] bool can_write(const void* from, std::size_t bytes) const {
    return !reach_ || reach_(from, bytes);
  }

  vitrine_unwind_tables& tables_;
  Reach reach_;
  std::uint32_t epoch_ = 1;
  std::size_t words_ = 0, regions_ = 0, spaces_ = 0;
  std::vector<unwind::Rule> numbered_;  // that have no code of their own
};

}  // namespace vitrine::bpf
