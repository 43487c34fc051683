// Which processes of a profile are selected (docs/essays/rows.md, "What a selection refuses").
#pragma once

#include <functional>

#include "observe/profile/profiling.hpp"
#include "observe/profile/program.hpp"

namespace vitrine::observe {

enum class Selected : std::uint8_t {
  yes,
  no,       ///< by what it declared of itself since the interval began
  unknown,  ///< its program was being loaded: this sample is none, and the next may be one
};

/// `learn`: reads anew what the process declares of itself, and sets SampledProgram::learnt.
Selected selected_by(const ProcessSelection& selection, SampledProgram& program,
                     const std::function<void(SampledProgram&)>& learn);

/// Whether a process may be selected, before there is a sample of its program. By what costs next to nothing to
/// know: its first sample decides.
bool may_be_selected(const ProcessSelection& selection, SampledProgram& program);

}  // namespace vitrine::observe
