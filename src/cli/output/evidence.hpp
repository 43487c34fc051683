// Of which readings of labels there is evidence.
#pragma once

#include "observe/labels/labels.hpp"

namespace vitrine::cli {

/// The memory was read, whatever was found: `evidence` is of that. A thread that could not be read at all has none.
inline bool has_evidence(const observe::ThreadLabels& thread) {
  return thread.set || thread.set.error().code == ErrorCode::malformed;
}

}  // namespace vitrine::cli
