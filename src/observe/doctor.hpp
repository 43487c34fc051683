// What this machine and this user may do, and what would enable the rest.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vitrine::observe {

/// One fact about this machine or user, found by trying it wherever trying has no effect on other processes.
struct Finding {
  enum class Verdict : std::uint8_t {
    yes,      ///< there
    no,       ///< not there: `remedy` has what would change that
    partial,  ///< there with a restriction that `detail` names
  };
  /// "capabilities", "kernel", "modes", "profiles"; of the command: "confinement", "commands".
  std::string topic;
  std::string what;  ///< "CAP_BPF", "BTF", "mode snapshot"
  Verdict verdict = Verdict::no;
  std::string detail;  ///< what was seen: "perf_event_paranoid is 2"
  std::string remedy;  ///< empty when there is nothing to do
};

/// "yes", "no", "partly".
std::string_view name(Finding::Verdict verdict);

/// Looks at this machine and user now. Never fails: what cannot be found out is a finding.
std::vector<Finding> examine();

/// Whether attaching to probes takes CAP_SYS_ADMIN: on Linux before 6.6.
bool attaching_takes_admin();

}  // namespace vitrine::observe
