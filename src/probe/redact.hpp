// Values of fired arguments that are not to be shown.
#pragma once

#include "base/redaction.hpp"
#include "probe/evaluate.hpp"

namespace vitrine::probe {

/// What stands for `value`: for text and bytes by what they hold, for all else by how it is written.
/// What could not be read stays as it is.
Value redacted(const Value& value, const Redaction& redaction);

}  // namespace vitrine::probe
