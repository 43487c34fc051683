#include "bpf/unwind_log.hpp"

#include <algorithm>
#include <array>
#include <atomic>

namespace vitrine::bpf {
namespace {

using unwind::Rule;

constexpr std::int32_t word_bytes = 8;

static_assert(unwind::rule_page_bytes == 1U << VITRINE_UNWIND_PAGE_BITS);
static_assert(static_cast<int>(Rule::Source::at_cfa) == VITRINE_UNWIND_AT_CFA);
static_assert(static_cast<int>(Rule::Source::same) == VITRINE_UNWIND_SAME);
static_assert(static_cast<int>(Rule::Source::lost) == VITRINE_UNWIND_GONE);

/// An offset in words, if it is `least` to `most` of them.
std::optional<std::uint32_t> in_words(std::int32_t offset, std::uint32_t least,
                                      std::uint32_t most) {
  if (offset < 0 || offset % word_bytes != 0) return std::nullopt;
  const auto words = static_cast<std::uint32_t>(offset / word_bytes);
  return words >= least && words <= most ? std::optional(words) : std::nullopt;
}

/// How many words below the CFA the frame pointer is, if the return address is where that implies.
std::optional<std::uint32_t> saved_words(const Rule& rule, Machine machine) {
  const bool on_stack = rule.return_address == Rule::Source::at_cfa;
  if (rule.frame_pointer == Rule::Source::lost) return std::nullopt;
  const bool saves = rule.frame_pointer == Rule::Source::at_cfa;
  if (machine == Machine::x86_64) {
    if (!on_stack || rule.return_address_offset != -word_bytes) return std::nullopt;
  } else if (saves != on_stack || rule.return_address == Rule::Source::lost ||
             (saves && rule.return_address_offset != rule.frame_pointer_offset + word_bytes)) {
    return std::nullopt;
  }
  if (!saves) return 0;
  return in_words(rule.frame_pointer_offset == INT32_MIN ? 0 : -rule.frame_pointer_offset, 1,
                  VITRINE_UNWIND_MOST_SAVED);
}

std::optional<std::uint32_t> own_code_of(const Rule& rule, Machine machine) {
  const unwind::Roles roles = unwind::roles_of(machine);
  const bool by_frame = rule.cfa_register == roles.frame;
  const auto cfa = in_words(rule.cfa_offset, 0, VITRINE_UNWIND_MOST_CFA);
  const auto saved = saved_words(rule, machine);
  if (!cfa || !saved || (!by_frame && rule.cfa_register != roles.stack)) return std::nullopt;
  return (by_frame ? VITRINE_UNWIND_BY_FRAME_POINTER : 0) | *cfa << 7 | *saved;
}

constexpr std::uint32_t special(vitrine_unwind_special number) {
  return VITRINE_UNWIND_BY_NUMBER | number;
}

}  // namespace

std::uint32_t UnwindLog::number_of(const Rule& rule) {
  auto known = std::ranges::find(numbered_, rule);
  if (known == numbered_.end()) {
    if (numbered_.size() == VITRINE_UNWIND_RULES - VITRINE_UNWIND_SPECIALS)
      return VITRINE_UNWIND_COPY;
    vitrine_unwind_rule& its = tables_.rules[VITRINE_UNWIND_SPECIALS + numbered_.size()];
    if (!can_write(&its, sizeof its)) return VITRINE_UNWIND_COPY;
    its = {rule.cfa_register,
           static_cast<__u8>(rule.frame_pointer),
           static_cast<__u8>(rule.return_address),
           rule.form == Rule::Form::switched,
           rule.cfa_offset,
           rule.frame_pointer_offset,
           rule.return_address_offset};
    known = numbered_.insert(known, rule);
  }
  return VITRINE_UNWIND_SPECIALS + static_cast<std::uint32_t>(known - numbered_.begin());
}

std::uint32_t UnwindLog::code_of(const Rule& rule, Machine machine) {
  switch (rule.form) {
    case Rule::Form::none:
      return special(VITRINE_UNWIND_CONVENTION);
    case Rule::Form::outermost:
      return special(VITRINE_UNWIND_OUTERMOST);
    case Rule::Form::signal:
      return special(VITRINE_UNWIND_SIGNAL);
    case Rule::Form::unknown:
    case Rule::Form::row:
      return special(VITRINE_UNWIND_COPY);
    case Rule::Form::switched:
      return VITRINE_UNWIND_BY_NUMBER | number_of(rule);
    case Rule::Form::offsets:
      break;
  }
  if (const auto own = own_code_of(rule, machine)) return *own;
  return VITRINE_UNWIND_BY_NUMBER | number_of(rule);
}

std::optional<std::uint32_t> UnwindLog::add_page(vitrine_unwind_page_key key,
                                                 const unwind::RulePage& page, Machine machine) {
  const std::size_t size = VITRINE_UNWIND_PAGE_ROWS + page.rows.size();
  if (size > VITRINE_UNWIND_WORDS - words_) return std::nullopt;
  const auto at = static_cast<std::uint32_t>(words_);
  __u32* const words = tables_.words + words_;
  if (!can_write(words, size * sizeof *words)) return std::nullopt;
  words_ += size;
  words[0] = key.file;
  words[1] = key.page;
  for (std::uint32_t granule = 0; granule <= VITRINE_UNWIND_GRANULES; ++granule) {
    const std::uint32_t start = granule << VITRINE_UNWIND_GRANULE_BITS;
    // Of the last granule's end: the last row.
    const auto after = std::ranges::upper_bound(page.rows, start, {}, &unwind::PageRow::offset);
    const auto position = static_cast<std::uint32_t>(after - page.rows.begin() - 1);
    __u32& two = words[VITRINE_UNWIND_PAGE_INDEX + granule / 2];
    two = granule % 2 == 0 ? position : two | position << 16;
  }
  std::vector<std::uint32_t> codes;
  for (const Rule& rule : page.rules) codes.push_back(code_of(rule, machine));
  for (std::size_t n = 0; n < page.rows.size(); ++n)
    words[VITRINE_UNWIND_PAGE_ROWS + n] =
        std::uint32_t{page.rows[n].offset} << VITRINE_UNWIND_CODE_BITS | codes[page.rows[n].rule];
  return at;
}

std::optional<std::uint32_t> UnwindLog::add_space(pid_t kernel_tgid, std::uint64_t execution,
                                                  std::span<const vitrine_unwind_region> regions,
                                                  std::uint64_t known_ns) {
  if (spaces_ == VITRINE_UNWIND_SPACES || regions.size() > VITRINE_UNWIND_REGIONS - regions_)
    return std::nullopt;
  if (!can_write(tables_.spaces + spaces_, sizeof *tables_.spaces) ||
      !can_write(tables_.regions + regions_, regions.size_bytes()))
    return std::nullopt;
  const auto id = static_cast<std::uint32_t>(epoch_ * VITRINE_UNWIND_SPACES + spaces_);
  std::ranges::copy(regions, tables_.regions + regions_);
  tables_.spaces[spaces_++] = {execution,
                               known_ns,
                               static_cast<__u32>(kernel_tgid),
                               id,
                               static_cast<__u32>(regions_),
                               static_cast<__u32>(regions.size())};
  regions_ += regions.size();
  return id;
}

void UnwindLog::confirm_space(std::uint32_t id, std::uint64_t known_ns) {
  std::atomic_ref(tables_.spaces[id % VITRINE_UNWIND_SPACES].known_ns)
      .store(known_ns, std::memory_order_relaxed);
}

void UnwindLog::clear() {
  ++epoch_;
  words_ = regions_ = spaces_ = 0;
  numbered_.clear();
}

}  // namespace vitrine::bpf
