// A profile with some values hidden.
#pragma once

#include "base/redaction.hpp"
#include "profile/profile.hpp"

namespace vitrine::profile {

/// With the values of labels and of resource attributes that `redaction` covers replaced. Ids of
/// traces are covered by the keys trace_id and span_id; when one is, no sample has a link, and the
/// ids are labels: what stands for one is no id. Where that would take more label sets than a
/// profile may have, samples lose them, which is counted.
Profile redacted(Profile profile, const Redaction& redaction);

}  // namespace vitrine::profile
