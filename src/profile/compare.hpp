// Comparing two profiles: which functions and labels have another part of the time, and which
// differences sampling alone would make.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profile/profile.hpp"

namespace vitrine::profile {

/// Time on one side, as what is compared: a part of all time of that side, or CPUs (time a second).
struct Amount {
  double value = 0;
  double deviation = 0;  ///< standard deviation, if each sample fell where it did by chance
};

struct Difference {
  Amount before, after;

  [[nodiscard]] double change() const { return after.value - before.value; }
  /// Nineteen of twenty differences that sampling alone makes are smaller.
  [[nodiscard]] double noise() const;
  [[nodiscard]] bool is_significant() const { return change() > noise() || -change() > noise(); }
};

struct ComparedRow {
  std::string name;  ///< of a function, or a value of a label
  Difference own;    ///< it was the leaf (of labels: the same as `total`)
  Difference total;  ///< it was on the stack
};

enum class CompareBy : std::uint8_t {
  part,  ///< of all time of its profile
  rate,  ///< time for each second of its profile
};

/// Every function of both, the largest change of its total or own part first. Functions are the
/// same by their names.
std::vector<ComparedRow> compare_functions(const Profile& before, const Profile& after,
                                           Measure measure, CompareBy by);

/// Every value of a key (profile::value_of) of both; "(none)" for samples that have no such key.
std::vector<ComparedRow> compare_values(const Profile& before, const Profile& after,
                                        Measure measure, const std::string& key, CompareBy by);

}  // namespace vitrine::profile
