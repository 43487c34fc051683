#include "bpf/row_table.hpp"

#include <algorithm>
#include <utility>

namespace vitrine::bpf {
namespace {

/// Empties a cell. Its time does not change while there is something in it.
RowPart take_cell(vitrine_row_cell& cell) {
  RowPart part;
  if (__atomic_load_n(&cell.sum, __ATOMIC_ACQUIRE) == 0) return part;
  part.time_ns = __atomic_load_n(&cell.time_ns, __ATOMIC_ACQUIRE);
  const std::uint64_t sum = __atomic_exchange_n(&cell.sum, 0, __ATOMIC_ACQ_REL);
  part.samples = sum & ((1U << VITRINE_ROW_COUNT_BITS) - 1);
  part.off_ns = sum >> VITRINE_ROW_COUNT_BITS;
  return part;
}

/// Of a row of a span, before take() looks at it no more: a second, as it is called.
constexpr std::uint8_t max_empty_looks = 4;

}  // namespace

RowTable::RowTable(std::span<vitrine_row> rows) : rows_(rows), models_(rows.size()) {}

std::span<vitrine_row> RowTable::half(std::uint32_t generation) const {
  const std::size_t count = rows_.size() / 2;
  return rows_.subspan((generation & 1) * count, count);
}

bool RowTable::add(std::uint32_t row, bool of_span) {
  if (!has(row)) return false;
  const std::uint32_t number = row - 1;
  const int half = number < rows_.size() / 2 ? 0 : 1;
  known_[half].push_back(number);
  looked_[half].push_back({number, of_span, 0});
  return true;
}

void RowTable::add_model(std::uint32_t row) {
  if (has(row)) models_[row - 1] = true;
}

bool RowTable::take(std::uint32_t number, const Sink& sink) {
  bool had_samples = false;
  for (vitrine_row_cell& cell : rows_[number].cells) {
    RowPart part = take_cell(cell);
    part.row = number + 1;
    if (part.samples == 0) continue;
    sink(part);
    had_samples = true;
  }
  return had_samples;
}

void RowTable::take(const Sink& sink) {
  // Most rows are empty, and none of them is in a cache: what is looked at next is fetched meanwhile.
  constexpr std::ptrdiff_t ahead = 6;
  for (std::vector<Looked>& rows : looked_) {
    const Looked* const end = rows.data() + rows.size();
    std::erase_if(rows, [&](Looked& row) {
      if (end - &row > ahead) {
        const auto* const next = reinterpret_cast<const char*>(&rows_[(&row)[ahead].number]);
        for (std::size_t at = 0; at < sizeof(vitrine_row); at += 64) __builtin_prefetch(next + at);
      }
      const bool is_empty = !take(row.number, sink) && row.of_span;
      row.empty = is_empty ? row.empty + 1 : 0;
      return row.empty == max_empty_looks;
    });
  }
}

void RowTable::end(std::uint32_t generation, const Sink& sink) {
  const auto size = static_cast<std::ptrdiff_t>(half(generation).size());
  std::fill_n(models_.begin() + ((generation & 1) != 0 ? size : 0), size, false);
  looked_[generation & 1].clear();
  for (const std::uint32_t number : std::exchange(known_[generation & 1], {})) {
    take(number, sink);
    rows_[number] = {};
  }
}

std::uint64_t RowTable::forget(std::uint32_t generation) {
  std::uint64_t samples = 0;
  end(generation, [&](const RowPart& part) { samples += part.samples; });
  for (vitrine_row& row : half(generation)) {
    if (row.key[0] == 0) continue;  // nothing is added to a row that is free
    for (vitrine_row_cell& cell : row.cells) samples += take_cell(cell).samples;
    row = {};
  }
  return samples;
}

}  // namespace vitrine::bpf
