// What the three modes share when they make their results.
#pragma once

#include <vector>

#include "observe/labels.hpp"
#include "observe/subject.hpp"

namespace vitrine::observe {

std::vector<DefinitionInfo> describe(std::span<const Definition> definitions);

/// Whether the caller asked for this thread.
bool wanted(const LabelOptions& options, pid_t tid);

/// A result with everything but evidence and set.
ThreadLabels labels_of(Subject& subject, Mode mode, const SeenThread& thread,
                       std::size_t definition);

}  // namespace vitrine::observe
