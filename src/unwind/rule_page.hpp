// RulePage: the rules of one page of a file's code, as the unwinder in the kernel takes them.
//
// That unwinder restores three registers (stack pointer, frame pointer, pc) and has no room for
// expressions. A page has for every address what the unwinder does there: apply offsets, follow the frame
// pointer, leave a signal frame, end, or leave the stack to user space. What a Row has by an
// expression is tried out when the page is made:
//
// - a CFA that depends on nothing but stack pointer and pc is an offset at each pc (the PLT of ld);
// - a trampoline that restores from where the kernel saves registers is the kernel's signal frame.
#pragma once

#include <cstdint>
#include <vector>

#include "base/pack.hpp"
#include "unwind/frame_table.hpp"
#include "unwind/rule.hpp"

namespace vitrine::unwind {

/// Code of one page of rules.
inline constexpr std::uint32_t rule_page_bytes = 4096;

/// From `offset` in the page on, to the next row: rule number `rule` of the page.
struct PageRow {
  std::uint16_t offset = 0;
  std::uint16_t rule = 0;

  bool operator==(const PageRow&) const = default;
};

/// Rules are of these forms: `offsets`, `outermost`, `signal`; `none`: by frame pointers; `unknown`:
/// the kernel cannot, user space may.
struct RulePage {
  std::vector<PageRow> rows;  ///< by offset; the first has offset 0
  std::vector<Rule> rules;    ///< each once

  /// Of an offset below rule_page_bytes.
  [[nodiscard]] const Rule& at(std::uint32_t offset) const;

  /// Rows in order from 0 on, with rules of the page that can be applied. What comes from another
  /// process may be otherwise.
  [[nodiscard]] bool is_sound() const;
};

/// The page around one of the file's own addresses.
RulePage make_rule_page(FrameTable& table, Address address);

/// The rule for a row in a form that the kernel can apply where the pc is `address`; `unknown`: there
/// is none.
Rule kernel_rule(const Row& row, Address address, Machine machine);

template <pack::Of<PageRow> T>
auto fields(T& row) {
  auto& [offset, rule] = row;
  return std::tie(offset, rule);
}

template <pack::Of<RulePage> T>
auto fields(T& page) {
  auto& [rows, rules] = page;
  return std::tie(rows, rules);
}

}  // namespace vitrine::unwind
