// What the commands take, told: as a table for documents, for a manual page, and for this user.
#pragma once

#include <memory>
#include <vector>

#include "cli/command.hpp"
#include "observe/doctor.hpp"

namespace vitrine::cli {

/// The table of docs/for-operators.md.
std::string uses_markdown(const std::vector<std::unique_ptr<Command>>& commands);

/// A section of a manual page; empty for a command that takes nothing.
std::string uses_roff(const std::vector<Use>& uses);

/// Which of them `held` suffices for, a finding a use. Where there is no uprobe_multi, traces take
/// CAP_SYS_ADMIN, too.
std::vector<observe::Finding> uses_for(const std::vector<std::unique_ptr<Command>>& commands,
                                       confine::Capabilities held, bool has_uprobe_multi);

/// The one line that would enable the rest; empty when there is none.
std::string enabling_line(const std::vector<std::unique_ptr<Command>>& commands,
                          confine::Capabilities held, bool has_uprobe_multi);

}  // namespace vitrine::cli
