// Profiles as text: informative keys, top functions, and tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/output/text.hpp"
#include "profile/profile.hpp"
#include "profile/select.hpp"

namespace vitrine::cli {

// Which labels are most informative about where the time went.

/// At most `most` keys of labels, the most informative first: those that much of the time has, with
/// several values that share it. A key with another value in almost every sample (an id) adds
/// nothing.
std::vector<std::string> informative_keys(const profile::Profile& profile, std::size_t most);

// Which functions the time was spent in.

struct FunctionTime {
  std::string name;  ///< of a function; else the file, or "(unknown)"
  /// It was the leaf; of waiting: the innermost that is not the kernel's.
  std::uint64_t own_ns = 0;
  std::uint64_t all_ns = 0;  ///< it was on the stack
  /// The same of the samples with each value of a label.
  std::vector<std::uint64_t> all_ns_of;
};

/// A label key, and values of it.
struct LabelValues {
  std::string key;
  std::vector<std::string> values;
};

/// Of the samples of one measure, the most own time first.
std::vector<FunctionTime> top_functions(const profile::Profile& profile, profile::Measure measure,
                                        const LabelValues& split = {});

// A profile on a terminal: how much, whose, where.

struct ProfileTextOptions {
  bool utf8 = true;
  std::size_t max_rows = 10;  ///< of each table; the others are added up in one
  bool sees_starts = false;   ///< processes are profiled from their start on
};

/// How many samples of what, and the time they stand for: one line.
std::string profile_head(const profile::Profile& profile, const ProfileTextOptions& options);

/// What got lost or could not be read, a line each; empty: nothing.
std::string profile_losses(const profile::Profile& profile, const ProfileTextOptions& options);

/// Time by the values of `keys`: `rows` as profile::top() gives them.
std::string top_text(const std::vector<std::string>& keys, const std::vector<profile::TopRow>& rows,
                     const Style& style, const ProfileTextOptions& options);

/// All of the above, by the most informative label keys, and the functions with the most time of their
/// own and in all, with their part of the time of each value of the first of these keys.
std::string profile_summary(const profile::Profile& profile, const Style& style,
                            const ProfileTextOptions& options);

}  // namespace vitrine::cli
