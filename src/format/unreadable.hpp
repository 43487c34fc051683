// Which truncations are a publisher's fault.
#pragma once

#include "format/label_set.hpp"

namespace vitrine::format {

/// No limit cut it: the publisher's memory ends before the length that it gives.
bool is_unreadable(const Truncation& cut);

}  // namespace vitrine::format
