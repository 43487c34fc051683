// vitrine labels: one reading of a process as text.
#pragma once

#include <functional>
#include <string_view>

#include "cli/output/text.hpp"
#include "observe/labels/labels.hpp"

namespace vitrine::cli {

/// Takes a piece of text; false when the output has no reader.
using TextSink = std::function<bool(std::string_view)>;

/// The definitions found, then a line a thread. A process that publishes the same labels in several
/// formats shows them once; where its formats differ, each line names its own. Threads with nothing
/// in force are counted, or listed with `every_thread`. Line by line, as all of them may be long.
/// False when the output has no reader.
bool print_labels(const observe::Snapshot& snapshot, bool every_thread, const Style& style,
                  const TextSink& out);

}  // namespace vitrine::cli
