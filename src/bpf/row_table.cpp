#include "bpf/row_table.hpp"

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

}  // namespace

RowTable::RowTable(std::span<vitrine_row> rows) : rows_(rows) {}

std::span<vitrine_row> RowTable::half(std::uint32_t generation) const {
  const std::size_t count = rows_.size() / 2;
  return rows_.subspan((generation & 1) * count, count);
}

bool RowTable::add(std::uint32_t row) {
  if (!has(row)) return false;
  const std::uint32_t number = row - 1;
  known_[number < rows_.size() / 2 ? 0 : 1].push_back(number);
  return true;
}

void RowTable::take(std::uint32_t number, const Sink& sink) {
  for (vitrine_row_cell& cell : rows_[number].cells) {
    RowPart part = take_cell(cell);
    part.row = number + 1;
    if (part.samples != 0) sink(part);
  }
}

void RowTable::take(const Sink& sink) {
  for (const Known& known : known_)
    for (const std::uint32_t number : known) take(number, sink);
}

void RowTable::end(std::uint32_t generation, const Sink& sink) {
  for (const std::uint32_t number : std::exchange(known_[generation & 1], {})) {
    take(number, sink);
    rows_[number] = {};
  }
}

std::uint64_t RowTable::forget(std::uint32_t generation) {
  std::uint64_t samples = 0;
  end(generation, [&](const RowPart& part) { samples += part.samples; });
  for (vitrine_row& row : half(generation)) {
    for (vitrine_row_cell& cell : row.cells) samples += take_cell(cell).samples;
    row = {};
  }
  return samples;
}

}  // namespace vitrine::bpf
