// What to say when no probe is what the user asked for.
#pragma once

#include <set>
#include <string>

#include "base/result.hpp"
#include "observe/trace.hpp"

namespace vitrine::observe {

/// `seen`: "provider:name" of the probes that there are.
Error no_such_probe(const TraceOptions& options, const std::set<std::string>& seen);

}  // namespace vitrine::observe
