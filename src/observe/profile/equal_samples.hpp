// EqualSamples: what the rows stand for in which the kernel adds equal samples up (docs/essays/rows.md).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "bpf/event.hpp"
#include "bpf/row_table.hpp"
#include "observe/profile/program.hpp"
#include "profile/profile.hpp"

namespace vitrine::observe {

/// The sample that a row began with, as it is in the profile.
struct EqualSample {
  std::optional<profile::Sample> sample;  ///< nothing: those of the row are not in the profile
  bool is_refused = false;                ///< by ProfilingOptions::only
  profile::Losses losses;                 ///< of each, but for a link that had no room
  bool has_trace = false;                 ///< and a link, if that had room
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

/// A row, as the profile has it.
struct EqualRow {
  EqualSample* sample = nullptr;        ///< null: it has not begun. Good until the next begins
  profile::Index link = profile::none;  ///< of its samples, as `sample` may be the model of others
};

class EqualSamples {
 public:
  /// If `sample` begins a row or is the model of others, `its` is what these are. If it came in though the kernel has
  /// added it up, or knows its model, it is compared with that.
  void take(const bpf::StackSample& sample, EqualSample its);
  /// A sample with this link, and all else as `model` has it, began a row.
  void begin(std::uint32_t row, std::uint32_t model, profile::Index link);
  /// By the kernel's number of a row, or of a model.
  EqualRow find(std::uint32_t row);
  /// All that was added to these rows, and all their samples, have come in.
  void end();

  /// Of those that came in and were added up: how many, how many of them are equal to what their row began
  /// with, and by how many sums were wrong.
  [[nodiscard]] std::uint64_t compared() const { return compared_; }
  [[nodiscard]] std::uint64_t agreed() const { return agreed_; }
  [[nodiscard]] std::uint64_t miscounted() const { return miscounted_; }

 private:
  struct Place {
    std::uint32_t sample = 0;  // in samples_, plus one; 0: it has not begun
    profile::Index link = profile::none;
  };
  Place& place_of(std::uint32_t row);

  std::deque<EqualSample> samples_;
  std::vector<Place> places_;  // by the kernel's number of a row
  std::uint64_t compared_ = 0, agreed_ = 0, miscounted_ = 0;
};

profile::Losses difference(const profile::Losses& now, const profile::Losses& before);
void add_to(profile::Losses& all, const profile::Losses& each, std::uint64_t times);

}  // namespace vitrine::observe
