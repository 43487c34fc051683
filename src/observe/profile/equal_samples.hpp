// EqualSamples: what the rows stand for in which the kernel adds equal samples up (docs/essays/rows.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bpf/event.hpp"
#include "bpf/row_table.hpp"
#include "observe/profile/program.hpp"
#include "profile/profile.hpp"

namespace vitrine::observe {

/// One row: the sample that it began with, as it is in the profile.
struct EqualSample {
  std::optional<profile::Sample> sample;  ///< nothing: those of the row are not in the profile
  bool is_refused = false;                ///< by ProfilingOptions::only
  profile::Losses losses;                 ///< of each
  std::size_t unwound_as = 0;             ///< KernelStacks::counted_as
  // By what its stack was found, as another may have to be:
  SampledPrograms::Program program;  ///< null: its process is not observed
  std::uint64_t version = 0;         ///< of its code
  SampledPrograms::Program waker;    ///< null: there is none, or it has no stack of user code
  std::uint64_t waker_version = 0;
  bpf::StackSample first;  ///< its head and its stacks
  // Of ProfilingOptions::verify_unwind:
  std::uint64_t records = 0, added = 0;
};

class EqualSamples {
 public:
  /// `first` began a row.
  void begin(const bpf::StackSample& first, EqualSample row);
  /// Null: it has not begun. Good until the next begins.
  EqualSample* find(std::uint32_t row);

  /// `sample` came in though the kernel has added it up: `made` is what it is in the profile.
  void compare(const bpf::StackSample& sample, const std::optional<profile::Sample>& made);
  /// All that was added to these rows, and all their samples, have come in.
  void end();

  /// Of those that came in and were added up: how many, how many of them are equal to what their row began
  /// with, and by how many sums were wrong.
  [[nodiscard]] std::uint64_t compared() const { return compared_; }
  [[nodiscard]] std::uint64_t agreed() const { return agreed_; }
  [[nodiscard]] std::uint64_t miscounted() const { return miscounted_; }

 private:
  std::vector<EqualSample> rows_;
  /// In rows_, plus one, by the kernel's number of a row; 0: it has not begun.
  std::vector<std::uint32_t> places_;
  std::uint64_t compared_ = 0, agreed_ = 0, miscounted_ = 0;
};

profile::Losses difference(const profile::Losses& now, const profile::Losses& before);
void add_to(profile::Losses& all, const profile::Losses& each, std::uint64_t times);

}  // namespace vitrine::observe
