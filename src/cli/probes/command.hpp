// vitrine probes: probes as text.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/output/text.hpp"
#include "observe/probes/probes.hpp"

namespace vitrine::cli {

/// Probes of one file, in one place of a process or in none.
struct ShownProbes {
  const observe::ProbeFile* file = nullptr;
  std::optional<Address> bias;  ///< in a process
  std::vector<const probe::Probe*> probes;
};

/// The file's name, then a line a probe: how many sites it has, whether a semaphore guards them, and
/// its arguments.
std::string probes_text(const ShownProbes& shown, const Style& style);

/// The file's name and build id, then each probe with a line for each of its sites: where it is, in
/// which function, the semaphore, the arguments; and below it what is wrong with it.
std::string sites_text(const ShownProbes& shown, const Style& style);

}  // namespace vitrine::cli
