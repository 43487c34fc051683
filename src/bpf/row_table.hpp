// RowTable: the reader's side of the rows in which the profiling program adds equal samples up
// (docs/essays/rows.md).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "bpf/wire/rows.h"

namespace vitrine::bpf {

/// Samples that are equal to the first one of their row.
struct RowPart {
  std::uint32_t row = 0;      ///< vitrine_stack_sample.row
  std::uint64_t time_ns = 0;  ///< of the first of them, CLOCK_MONOTONIC
  std::uint64_t samples = 0;
  std::uint64_t off_ns = 0;  ///< of all of them
};

class RowTable {
 public:
  using Sink = std::function<void(const RowPart&)>;

  /// `rows`: those of two generations, which programs add to meanwhile.
  explicit RowTable(std::span<vitrine_row> rows);

  /// The first sample of this row has come in. False: there is no such row. `of_span`: the row ends with a span, as
  /// most of them do: once nothing has been added to it for some looks, take() leaves it to end().
  bool add(std::uint32_t row, bool of_span = false);
  /// A model that has this row has come in.
  void add_model(std::uint32_t row);
  /// Whether it has, and its row has not been freed since.
  [[nodiscard]] bool has_model(std::uint32_t row) const { return has(row) && models_[row - 1]; }
  /// Whether it is the number of one, known or not.
  [[nodiscard]] bool has(std::uint32_t row) const { return row != 0 && row <= rows_.size(); }
  /// Whether the rows of a generation are those that its records refer to: the one after the next has its half.
  static bool are_kept(std::uint32_t generation, std::uint32_t present) {
    return present - generation <= 1;
  }

  static bool is_later(std::uint32_t generation, std::uint32_t than) {
    return static_cast<std::int32_t>(generation - than) > 0;
  }

  /// What has been added to rows whose first samples have come in, each sample once.
  void take(const Sink& sink);

  /// Takes and frees the rows of a generation that no program adds to any more; those whose first
  /// samples have not come in stay.
  void end(std::uint32_t generation, const Sink& sink);

  /// Frees those as well. Returns how many samples they had.
  std::uint64_t forget(std::uint32_t generation);

 private:
  struct Looked {
    std::uint32_t number;
    bool of_span;
    std::uint8_t empty;  ///< looks in succession that have found nothing
  };
  /// Returns whether something had been added.
  bool take(std::uint32_t number, const Sink& sink);
  [[nodiscard]] std::span<vitrine_row> half(std::uint32_t generation) const;

  std::span<vitrine_row> rows_;
  std::vector<std::uint32_t> known_[2];  // numbers, of either half
  std::vector<Looked> looked_[2];        // those of them that take() looks at
  std::vector<bool> models_;             // by number, of both halves
};

}  // namespace vitrine::bpf
