// Child processes of this process that work for it.
#pragma once

#include "sandbox/file_opener.hpp"
#include "sandbox/seats.hpp"

namespace vitrine::observe {

/// Ends those that no other thread uses; what needs one starts another.
inline void end_helpers() {
  sandbox::end_unclaimed();
  sandbox::FileOpener::of_this_process().end_if_unused();
}

}  // namespace vitrine::observe
