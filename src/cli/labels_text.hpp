// One reading of a process's labels, for people.
#pragma once

#include <string>

#include "cli/text.hpp"
#include "observe/labels.hpp"

namespace vitrine::cli {

/// The definitions found, then a line a thread. A process that publishes the same labels in several
/// formats shows them once; where its formats differ, each line names its own. Threads with nothing
/// in force are counted, or listed with `every_thread`.
std::string labels_text(const observe::Snapshot& snapshot, bool every_thread, const Style& style);

}  // namespace vitrine::cli
